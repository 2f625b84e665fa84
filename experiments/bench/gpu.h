// gpu.h: `lockstep bench gpu`: our kernels on this machine's GPUs, without training. CUDA is in a
// program of its own beside this one, gpu_check, which checks and times them in at most 6 minutes;
// here its result becomes a lockstep.bench/1 like the others. Errors: FailedPrecondition (gpu_check
// is not built, or there is no GPU: what is missing, what to do), Unavailable (it ended early: how,
// its last words), DeadlineExceeded, the Abort's status. Threads: one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "proto/bench.pb.h"

namespace lockstep {

struct GpuBenchArguments {
  bool json = false;
  bool quick = false;
};

struct GpuBenchResult {
  GpuBenchFile file;    // all but host, command, build, times of day
  std::string table;    // for a terminal
  absl::Status status;  // what ended it early
};

absl::StatusOr<GpuBenchResult> RunGpuBench(const GpuBenchArguments& arguments,
                                           const std::string& program_dir, const Clock& clock,
                                           const Abort& abort);

}  // namespace lockstep
