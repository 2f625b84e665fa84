// broadcast.h: every rank gets root's bytes along a chain, root -> root + 1 -> ... -> root - 1.
// Chunks: as many as asked, each passed on while the next one arrives, so the time is that of one
// hop plus n - 2 chunks. Every rank but the last sends S bytes, every rank but root receives S.
// Needs 1 slot per connection: the chain has no cycle.
// Errors: InvalidArgument if world_size or chunks < 1 or root is no rank. Pure: no I/O, threads or
// clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct BroadcastSpec {
  int32_t world_size = 1;
  int32_t root = 0;
  int32_t chunks = 1;
};

absl::StatusOr<Shape> BroadcastShape(const BroadcastSpec& spec);
absl::StatusOr<Schedule> MakeBroadcast(const BroadcastSpec& spec);

// One rank's lane alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> BroadcastLanes(const BroadcastSpec& spec, int32_t rank);

}  // namespace lockstep
