// run.h: everything that has to be known of a machine with a GPU, in at most 6 minutes: versions,
// the device's copy as a roof, every kernel's results, the quickstart on GPUs, a sweep of settings.
// One JSON file and a short table on standard output. Returns the exit code: 0 all right, 1 a
// result was wrong, 4 the device failed or the file could not be written, 77 there is no GPU to
// check, with the reason. Threads: one.
#pragma once

#include <string>

#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {

struct RunOptions {
  bool quick = false;       // few lengths and settings, no quickstart: a test
  std::string json;         // file; empty: none
  std::string program_dir;  // may hold `lockstep`, for the quickstart
};

// Before the reason, where there is no GPU.
inline constexpr char kSkipped[] = "gpu_check: skipped: ";

int RunGpuCheck(Runtime* runtime, const RunOptions& options);
// Usage: 2.
int GpuCheckMain(Runtime* runtime, int argc, char** argv);

}  // namespace lockstep::gpu
