// ping_pong.h: rank 0 sends one chunk to rank 1 and gets it back; the other ranks do nothing.
// Timed, it gives what a message costs (base/link_cost.h). Both ranks send and receive S bytes in
// one message. Depth: 2 messages. Rank 0 ends with its own bytes, rank 1 with rank 0's. Needs 1
// slot. Errors: InvalidArgument if world_size < 2. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct PingPongSpec {
  int32_t world_size = 2;
};

absl::StatusOr<Shape> PingPongShape(const PingPongSpec& spec);
absl::StatusOr<Schedule> MakePingPong(const PingPongSpec& spec);

// One rank's lane alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> PingPongLanes(const PingPongSpec& spec, int32_t rank);

}  // namespace lockstep
