#include "allreduce/schedule/broadcast.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> BroadcastLanes(const BroadcastSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const TreePlace place = PlaceBelow(spec.form, spec.root, rank, spec.world_size);
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back(DownLane({.place = place,
                              .channel = channel,
                              .first = channel * spec.chunks,
                              .chunks = spec.chunks}));
  }
  return lanes;
}

absl::StatusOr<Shape> BroadcastShape(const BroadcastSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("broadcast", spec.world_size, spec.channels));
  RETURN_IF_ERROR(CheckChunks("broadcast", spec.channels, spec.chunks));
  RETURN_IF_ERROR(CheckRoot("broadcast", spec.root, spec.world_size));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels * spec.chunks,
               .slots = 2};  // works with one; two let a chunk arrive while the last one leaves
}

absl::StatusOr<Schedule> MakeBroadcast(const BroadcastSpec& spec) {
  return Assemble<BroadcastSpec>({BroadcastShape, BroadcastLanes}, spec);
}

}  // namespace lockstep
