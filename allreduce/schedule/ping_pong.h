// ping_pong.h: rank 0 sends its chunks to rank 1, one message each, and gets the last one back; the
// other ranks do nothing. Timed, it gives what a message costs (base/link_cost.h): with one message
// the round trip, with more what each further one adds. Rank 0 sends S bytes, rank 1 S / messages.
// Depth: messages + 1. Rank 0 ends with its own bytes, rank 1 with rank 0's. Works with 1 slot, has
// one a message, so that a burst is held up by the link alone.
// Errors: InvalidArgument if world_size < 2 or messages < 1. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct PingPongSpec {
  int32_t world_size = 2;
  int32_t messages = 1;  // before the answer
};

absl::StatusOr<Shape> PingPongShape(const PingPongSpec& spec);
absl::StatusOr<Schedule> MakePingPong(const PingPongSpec& spec);

// One rank's lane alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> PingPongLanes(const PingPongSpec& spec, int32_t rank);

}  // namespace lockstep
