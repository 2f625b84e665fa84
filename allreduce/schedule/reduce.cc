#include "allreduce/schedule/reduce.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> ReduceLanes(const ReduceSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const TreePlace place = PlaceBelow(spec.form, spec.root, rank, spec.world_size);
  std::vector<Lane> lanes;
  lanes.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back(UpLane({.place = place,
                            .channel = channel,
                            .first = channel * spec.chunks_per_channel,
                            .chunks = spec.chunks_per_channel}));
  }
  return lanes;
}

absl::StatusOr<Shape> ReduceShape(const ReduceSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("reduce", spec.world_size, spec.channels));
  RETURN_IF_ERROR(CheckChunks("reduce", spec.channels, spec.chunks_per_channel));
  RETURN_IF_ERROR(CheckRoot("reduce", spec.root, spec.world_size));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels * spec.chunks_per_channel,
               .slots = 2};  // works with one; two let a chunk arrive while the last one leaves
}

absl::StatusOr<Schedule> MakeReduce(const ReduceSpec& spec) {
  return Assemble<ReduceSpec>({ReduceShape, ReduceLanes}, spec);
}

}  // namespace lockstep
