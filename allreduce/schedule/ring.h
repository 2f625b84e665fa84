// ring.h: all-reduce on a ring in 2(n-1) moves per rank and channel, bandwidth-optimal for every n.
// Chunks: n per channel. A rank sends 2(n-1)/n of its bytes and receives as many, whatever the
// length: reduce-scatter passes growing sums round the ring, all-gather passes the finished chunks
// round it. Needs 2 slots per connection for n >= 2: a fused move wants a message and a free slot
// at once, so a cycle of fused moves with one slot stands still. With n = 1 there is nothing to
// move. Errors: InvalidArgument if world_size or channels < 1. Pure: no I/O, no threads, no clock.
// Paper: Patarasuk, Yuan, JPDC 69(2), 2009.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct RingSpec {
  int32_t world_size = 1;
  int32_t channels = 1;  // parallel rings, each with its own chunks, lane and connections
};

absl::StatusOr<Shape> RingShape(const RingSpec& spec);
absl::StatusOr<Schedule> MakeRing(const RingSpec& spec);

// One rank's lanes alone, for worlds too big to hold. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> RingLanes(const RingSpec& spec, int32_t rank);

}  // namespace lockstep
