// trace.h: trace.json: what the members of each variant did in a few steps after the warm-up, for
// chrome://tracing or Perfetto.
// Of each variant and number of workers the first run (first seed, first block), at most
// trace.steps steps. A process a member; tracks: a worker's steps (compute, then what it waited
// for, the late worker named), its exchange calls, and its messages by direction and peer; a
// server's pushes and replies by worker, and what it applied. Arrows lead from send to receive.
// Times in us from the run's first event shown; all members of a run share one clock.
// Bounded: kTraceSlicesMax slices a run, whole steps; otherData.left_out names what is missing.
// Errors: of the file, as errno. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {

inline constexpr size_t kTraceSlicesMax = 20'000;

std::string TraceToJson(const std::vector<RunRecord>& runs);
absl::Status WriteTrace(const std::string& path, const std::vector<RunRecord>& runs);

}  // namespace lockstep
