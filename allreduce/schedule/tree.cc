#include "allreduce/schedule/tree.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/tree_pieces.h"
#include "base/check.h"

namespace lockstep {

std::vector<Lane> TreeLanes(const TreeSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const TreePlace place = PlaceIn(TreeForm::kHeap, rank, spec.world_size);
  std::vector<TreePart> trees;
  trees.reserve(static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    trees.push_back({.place = place,
                     .channel = channel,
                     .first = channel * spec.chunks_per_channel,
                     .chunks = spec.chunks_per_channel});
  }
  return UpAndDownLanes(trees);
}

absl::StatusOr<Shape> TreeShape(const TreeSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("tree", spec.world_size, spec.channels));
  RETURN_IF_ERROR(CheckChunks("tree", spec.channels, spec.chunks_per_channel));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels * spec.chunks_per_channel,
               .slots = 2};  // works with one; two let a chunk arrive while the last one leaves
}

absl::StatusOr<Schedule> MakeTree(const TreeSpec& spec) {
  return Assemble<TreeSpec>({TreeShape, TreeLanes}, spec);
}

}  // namespace lockstep
