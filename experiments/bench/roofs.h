// roofs.h: what this machine gives before any collective: memory and loopback TCP, measured in the
// same run as everything else, medians of a few repeats. Errors: as errno, of sockets. Threads: the
// caller's and its own, all gone at the end.
#pragma once

#include "absl/status/statusor.h"
#include "proto/bench.pb.h"

namespace lockstep {

absl::StatusOr<BenchRoofs> MeasureRoofs();

}  // namespace lockstep
