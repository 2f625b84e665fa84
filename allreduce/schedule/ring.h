// ring.h: all-reduce on a ring in 2(n-1) messages per rank and channel, bandwidth-optimal for every
// n, and its two halves alone: reduce-scatter (rank r ends with part r complete) and all-gather
// (rank r brings part r), of n-1 messages each. Chunks: n per channel; part r is chunk r of each
// channel, so with one channel it is what PartOf (communicator.h) says. A rank sends 2(n-1)/n of
// its bytes and receives as many, a half alone (n-1)/n. Depth: as many messages. Wins where bytes
// count. Needs 2 slots per connection (all-reduce from n = 2, a half from n = 3): a fused move
// wants a message and a free slot at once, so a cycle of fused moves with one slot stands still.
// Errors: InvalidArgument if world_size or channels < 1, channels > kChannelsMax, or another
// collective is asked. Pure: no I/O, no threads, no clock. Paper: Patarasuk, Yuan, JPDC 69(2),
// 2009.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct RingSpec {
  int32_t world_size = 1;
  int32_t channels = 1;  // parallel rings, each with its own chunks, lane and connections
  Collective collective = Collective::kAllReduce;  // or kReduceScatter, kAllGather
};

absl::StatusOr<Shape> RingShape(const RingSpec& spec);
absl::StatusOr<Schedule> MakeRing(const RingSpec& spec);

// One rank's lanes alone, for worlds too big to hold. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> RingLanes(const RingSpec& spec, int32_t rank);

}  // namespace lockstep
