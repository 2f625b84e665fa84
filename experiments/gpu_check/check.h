// check.h: correctness of every kernel on this machine's GPUs: each dtype and reduction, ranks,
// awkward lengths and addresses, poisoned outputs, several calls in a row on the same flags. Goes
// on after a wrong result and names it; ends at an error of the device, or when its time is up.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "allreduce/cuda/launch.h"
#include "experiments/gpu_check/report.h"

namespace lockstep::gpu {

struct CheckPlan {
  Runtime* runtime = nullptr;
  std::vector<int> devices;     // one: all ranks on it; several: a rank on each
  std::vector<int32_t> ranks;   // group sizes; on several devices at most their number
  std::vector<int64_t> counts;  // elements
  std::chrono::steady_clock::time_point end;
};

Answer CheckKernels(const CheckPlan& plan, CheckReport* report);

// A group on these devices: all its ranks on one, or one on each.
Answer MakeGroup(Runtime* runtime, const std::vector<int>& devices, const KernelSpec& spec,
                 int threads, std::unique_ptr<KernelGroup>* made);
// The device of each rank.
std::vector<int> DevicesOfRanks(const std::vector<int>& devices, int32_t ranks);

}  // namespace lockstep::gpu
