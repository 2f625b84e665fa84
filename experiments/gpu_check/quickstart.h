// quickstart.h: whole comparisons on this machine's GPUs, where `lockstep` stands beside this
// program: two workers that may share a GPU, each as device GPU, under a parameter server, our
// ring, our kernels, and NCCL (each rank told another NCCL_HOSTID by the launcher). Workers take
// turns on one GPU, so it shows correctness only, never speed. Sums are EXACT, so all ways end with
// one parameter hash. In the report: what is missing here is a note that names the way; another
// hash, an error or a run that does not end in time is wrong. Threads: one. No Abseil.
#pragma once

#include <chrono>
#include <string>

#include "experiments/gpu_check/report.h"

namespace lockstep::gpu {

struct QuickstartPlan {
  std::string program_dir;             // holds `lockstep`, or not
  std::chrono::milliseconds limit{0};  // of each way
};

void RunQuickstart(const QuickstartPlan& plan, CheckReport* report);

}  // namespace lockstep::gpu
