#include "allreduce/schedule/tree.h"

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "base/check.h"

namespace lockstep {
namespace {

// Where a rank hangs; kNone: nobody there.
struct Place {
  int32_t parent = kNone;
  std::vector<int32_t> children;  // left, right
};

Place PlaceOf(int32_t rank, int32_t n) {
  Place place;
  if (rank > 0) place.parent = (rank - 1) / 2;
  for (const int32_t child : {2 * rank + 1, 2 * rank + 2}) {
    if (child < n) place.children.push_back(child);
  }
  return place;
}

// Adds the children's sums to my part; what leaves for the parent need not be kept.
void AddUpMoves(const Place& place, int32_t chunk, std::vector<Move>* moves) {
  if (place.children.empty() && place.parent != kNone) {
    moves->push_back({.send_to = place.parent, .in = chunk});
  }
  for (const int32_t child : place.children) {
    const bool last = child == place.children.back();
    const bool leaves = last && place.parent != kNone;
    moves->push_back({.recv_from = child,
                      .send_to = leaves ? place.parent : kNone,
                      .in = chunk,
                      .out = leaves ? kNone : chunk});
  }
}

// Keeps the result and hands it to the children; rank 0 has it from its up lane.
void AddDownMoves(const Place& place, int32_t chunk, int8_t up_lane, std::vector<Move>* moves) {
  const bool root = place.parent == kNone;
  if (place.children.empty() && !root) {
    moves->push_back({.recv_from = place.parent, .out = chunk});
  }
  for (const int32_t child : place.children) {
    Move move{.send_to = child, .in = chunk};
    if (child == place.children.front()) {
      if (root) {
        move.wait_lane = up_lane;
        const auto before = static_cast<int32_t>(moves->size());  // the up lane has as many a chunk
        move.wait_move = before + static_cast<int32_t>(place.children.size()) - 1;
      } else {
        move = {.recv_from = place.parent, .send_to = child, .out = chunk};
      }
    }
    moves->push_back(move);
  }
}

}  // namespace

std::vector<Lane> TreeLanes(const TreeSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  const Place place = PlaceOf(rank, spec.world_size);
  std::vector<Lane> up;
  std::vector<Lane> down;
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    up.push_back({channel, {}});
    down.push_back({channel, {}});
    for (int32_t k = 0; k < spec.chunks_per_channel; ++k) {
      const int32_t chunk = channel * spec.chunks_per_channel + k;
      AddUpMoves(place, chunk, &up.back().moves);
      AddDownMoves(place, chunk, static_cast<int8_t>(channel), &down.back().moves);
    }
  }
  up.insert(up.end(), down.begin(), down.end());
  return up;
}

absl::StatusOr<Shape> TreeShape(const TreeSpec& spec) {
  if (spec.world_size < 1 || spec.channels < 1 || spec.chunks_per_channel < 1 ||
      spec.channels > kChannelsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("tree: world_size ", spec.world_size, ", channels ", spec.channels,
                     " and chunks_per_channel ", spec.chunks_per_channel,
                     " must all be at least 1, channels at most ", kChannelsMax));
  }
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels * spec.chunks_per_channel,
               .slots = 2};  // works with one; two let a chunk arrive while the last one leaves
}

absl::StatusOr<Schedule> MakeTree(const TreeSpec& spec) {
  return Assemble<TreeSpec>({TreeShape, TreeLanes}, spec);
}

}  // namespace lockstep
