#include "allreduce/schedule/ring.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/ring_pieces.h"
#include "base/check.h"

namespace lockstep {
namespace {

constexpr int32_t kRingSlots = 2;  // one message being received, one being sent on

}  // namespace

std::vector<Lane> RingLanes(const RingSpec& spec, int32_t rank) {
  const int32_t n = spec.world_size;
  CHECK(rank >= 0 && rank < n) << "rank " << rank << " of " << n;
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    const RingPlace ring{.position = rank,
                         .size = n,
                         .prev = (rank + n - 1) % n,
                         .next = (rank + 1) % n,
                         .first = channel * n};
    std::vector<Move>& moves = lanes.emplace_back(Lane{channel, {}}).moves;
    if (spec.collective == Collective::kReduceScatter) {
      AddRingReduceScatter(ring, &moves);
    } else if (spec.collective == Collective::kAllGather) {
      AddRingAllGather(ring, &moves);
    } else {
      AddRingAllReduce(ring, &moves);
    }
  }
  return lanes;
}

absl::StatusOr<Shape> RingShape(const RingSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("ring", spec.world_size, spec.channels));
  RETURN_IF_ERROR(CheckFits("ring", int64_t{spec.world_size} * spec.channels));
  RETURN_IF_ERROR(CheckHalves("ring", spec.collective));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.world_size * spec.channels,
               .slots = kRingSlots};
}

absl::StatusOr<Schedule> MakeRing(const RingSpec& spec) {
  return Assemble<RingSpec>({RingShape, RingLanes}, spec);
}

}  // namespace lockstep
