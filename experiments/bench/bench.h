// bench.h: the whole of `lockstep bench allreduce`: roofs, then for each number of ranks all
// contestants alive at once, and for each size rounds in which every contestant has one turn, in
// another order each round, so that the machine's mood meets all alike. Every element of every rank
// is checked in the first turn and in the last. A library whose ranks are lost or do not answer
// loses its rows from that size on, not those of the others; whatever ends the bench, the sizes
// that were finished stand. Errors: those of job.h and roofs.h; FailedPrecondition (allreduce_rank
// is not built); ResourceExhausted (memory, with needed and available bytes, before anything
// starts). Threads: one.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "experiments/bench/options.h"
#include "proto/bench.pb.h"

namespace lockstep {

// A line for whoever waits.
using Progressing = std::function<void(const std::string& line)>;

struct BenchResult {
  BenchFile file;       // all but host, command, build, times of day
  absl::Status status;  // what ended the bench early; else the first library left out
};

// An error of the whole: nothing was measured.
absl::StatusOr<BenchResult> RunAllReduceBench(const BenchOptions& options,
                                              const std::string& program_dir, const Clock& clock,
                                              const Abort& abort, const Progressing& progress);

}  // namespace lockstep
