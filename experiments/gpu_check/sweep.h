// sweep.h: times on this machine's GPUs: the device's own copy, which is the roof; an empty
// cooperative launch; and each kernel over channels, threads and slots, then with its best settings
// over sizes. Times are those of single launches, between events on the stream. Ends early, with a
// note, when its time is up.
#pragma once

#include <chrono>
#include <vector>

#include "allreduce/cuda/runtime.h"
#include "experiments/gpu_check/report.h"

namespace lockstep::gpu {

// Sets roof_gb_s: 1 GiB, or an eighth of the memory, median of 20.
Answer MeasureRoof(Runtime* runtime, int device, CheckReport* report);
// Sets empty_launch_us: kPacket's blocks without elements.
Answer MeasureEmptyLaunch(Runtime* runtime, int device, CheckReport* report);

struct SweepPlan {
  Runtime* runtime = nullptr;
  std::vector<int> devices;  // as in check.h
  std::vector<int32_t> ranks;
  int64_t sweep_bytes = int64_t{64} << 20;  // of each rank
  std::vector<int64_t> sizes;               // bytes, with the best settings of the sweep
  bool quick = false;                       // few settings
  std::chrono::steady_clock::time_point end;
};
Answer Sweep(const SweepPlan& plan, CheckReport* report);

}  // namespace lockstep::gpu
