// barrier.h: no rank is through before every rank has come: dissemination. In round k a rank tells
// the rank 2^k after it that it and all it has heard of are here, and hears the same from the rank
// 2^k before it; after ceil(log2(n)) rounds it has heard of everybody. Chunks: one, of no elements
// (run it with a count of 0): messages are headers. A rank sends and receives ceil(log2(n))
// messages. Depth: as many, the least possible. Lanes: one. Needs 1 slot per connection: each
// carries one message. Errors: InvalidArgument if world_size < 1. Pure: no I/O, no threads, no
// clock. Paper: Hensgen, Finkel, Manber, International Journal of Parallel Programming 17(1), 1988.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct BarrierSpec {
  int32_t world_size = 1;
};

absl::StatusOr<Shape> BarrierShape(const BarrierSpec& spec);
absl::StatusOr<Schedule> MakeBarrier(const BarrierSpec& spec);

// One rank's lane alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> BarrierLanes(const BarrierSpec& spec, int32_t rank);

}  // namespace lockstep
