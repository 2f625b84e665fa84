// simulate.h: how long a schedule takes on a given network: the moves run in one thread on a
// virtual clock, with full-duplex ports that are reserved at event time, slots as credits, tiles as
// the executor makes them; what exactly takes how long, and who is first of two: timed_machine.h.
// Ranks are generated when first needed and dropped when through, so a ring of 4,096 ranks fits in
// memory. The same inputs give the same result. Errors: the generator's; InvalidArgument for
// options out of range; FailedPrecondition where the schedule stands still. Pure: no I/O, no
// threads.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "allreduce/schedule/cost.h"
#include "allreduce/schedule/generate.h"

namespace lockstep {

struct SimulationOptions {
  CostModel cost;
  int64_t bytes = 0;  // of data per rank; whole elements count
  int64_t element_bytes = 4;
  int64_t tile_bytes = kModelTileBytes;
};

struct Simulation {
  double time_ns = 0;          // until the last rank is through
  int64_t messages = 0;        // of all ranks
  int64_t sent_bytes = 0;      // payload, of all ranks
  int64_t sent_bytes_max = 0;  // of the busiest rank
  int64_t received_bytes_max = 0;
  int32_t chain = 0;  // messages in the longest chain, each sent after the one before came
};

absl::StatusOr<Simulation> Simulate(const ScheduleSpec& spec, const SimulationOptions& options);
// REQUIRES: Verify finds nothing malformed.
absl::StatusOr<Simulation> Simulate(const Schedule& schedule, const SimulationOptions& options);

}  // namespace lockstep
