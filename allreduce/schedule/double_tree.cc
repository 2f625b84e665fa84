#include "allreduce/schedule/double_tree.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/tree_pieces.h"
#include "base/check.h"

namespace lockstep {
namespace {

constexpr int32_t kTrees = 2;

}  // namespace

std::vector<Lane> DoubleTreeLanes(const DoubleTreeSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const TreePlace a = PlaceInPair(0, rank, spec.world_size);
  const TreePlace b = PlaceInPair(1, rank, spec.world_size);
  std::vector<TreePart> trees;
  trees.reserve(static_cast<size_t>(kTrees) * static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < kTrees * spec.channels; ++channel) {
    trees.push_back({.place = channel % kTrees == 0 ? a : b,
                     .channel = channel,
                     .first = channel * spec.chunks_per_tree,
                     .chunks = spec.chunks_per_tree});
  }
  return UpAndDownLanes(trees);
}

absl::StatusOr<Shape> DoubleTreeShape(const DoubleTreeSpec& spec) {
  RETURN_IF_ERROR(CheckWorld("double_tree", spec.world_size, spec.channels, kChannelsMax / kTrees));
  RETURN_IF_ERROR(CheckChunks("double_tree", kTrees * spec.channels, spec.chunks_per_tree));
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = kTrees * spec.channels * spec.chunks_per_tree,
               .slots = 2};  // works with one; two let a chunk arrive while the last one leaves
}

absl::StatusOr<Schedule> MakeDoubleTree(const DoubleTreeSpec& spec) {
  return Assemble<DoubleTreeSpec>({DoubleTreeShape, DoubleTreeLanes}, spec);
}

}  // namespace lockstep
