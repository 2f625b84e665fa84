#include "allreduce/schedule/star.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/tree_pieces.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> StarLanes(const StarSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const TreePlace place = PlaceIn(TreeForm::kFan, rank, spec.world_size);
  std::vector<TreePart> trees;
  trees.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    trees.push_back({.place = place, .channel = channel, .first = channel});
  }
  return UpAndDownLanes(trees);
}

absl::StatusOr<Shape> StarShape(const StarSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("star", spec.world_size, spec.channels));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels,
               .slots = 2};  // works with one; two let a tile arrive while the last one is summed
}

absl::StatusOr<Schedule> MakeStar(const StarSpec& spec) {
  return Assemble<StarSpec>({StarShape, StarLanes}, spec);
}

}  // namespace lockstep
