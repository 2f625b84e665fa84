#include "allreduce/schedule/tree_pieces.h"

#include <cstddef>

namespace lockstep {
namespace {

// The node on top of positions [begin, end), begin even: the odd one in the middle.
int32_t TopOf(int32_t begin, int32_t end) {
  return end - begin == 1 ? begin : begin + (end - begin) / 4 * 2 + 1;
}

TreePlace PlaceInHalves(int32_t position, int32_t n) {
  TreePlace place;
  int32_t begin = 0;
  int32_t end = n;
  int32_t top = TopOf(begin, end);
  while (top != position) {
    place.parent = top;
    (position < top ? end : begin) = position < top ? top : top + 1;
    top = TopOf(begin, end);
  }
  if (begin < top) place.children.push_back(TopOf(begin, top));
  if (top + 1 < end) place.children.push_back(TopOf(top + 1, end));
  return place;
}

// A root has one move up and one down for each chunk and child.
void WaitForSums(const TreePart& tree, int8_t up_lane, std::vector<Move>* down) {
  const size_t children = tree.place.children.size();
  for (size_t move = 0; move < down->size(); move += children) {
    (*down)[move].wait_lane = up_lane;
    (*down)[move].wait_move = static_cast<int32_t>(move + children - 1);
  }
}

}  // namespace

TreePlace PlaceIn(TreeForm form, int32_t position, int32_t n) {
  if (form == TreeForm::kHalves) return PlaceInHalves(position, n);
  int32_t parent = 0;
  int32_t first_child = position + 1;
  int32_t children = 1;
  if (form == TreeForm::kHeap) {
    parent = (position - 1) / 2;
    first_child = 2 * position + 1;
    children = 2;
  } else if (form == TreeForm::kChain) {
    parent = position - 1;
  } else {
    children = position == 0 ? n - 1 : 0;
  }
  TreePlace place;
  if (position > 0) place.parent = parent;
  for (int32_t child = first_child; child < first_child + children && child < n; ++child) {
    place.children.push_back(child);
  }
  return place;
}

TreePlace PlaceBelow(TreeForm form, int32_t root, int32_t rank, int32_t n) {
  TreePlace place = PlaceIn(form, (rank + n - root) % n, n);
  if (place.parent != kNone) place.parent = (place.parent + root) % n;
  for (int32_t& child : place.children) child = (child + root) % n;
  return place;
}

TreePlace PlaceInPair(int32_t tree, int32_t rank, int32_t n) {
  if (tree == 0) return PlaceIn(TreeForm::kHalves, rank, n);
  if (n % 2 != 0) return PlaceBelow(TreeForm::kHalves, 1, rank, n);
  TreePlace place = PlaceIn(TreeForm::kHalves, n - 1 - rank, n);
  if (place.parent != kNone) place.parent = n - 1 - place.parent;
  for (int32_t& child : place.children) child = n - 1 - child;
  return place;
}

void AddUpMoves(const TreePlace& place, int32_t chunk, std::vector<Move>* moves) {
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

void AddDownMoves(const TreePlace& place, int32_t chunk, std::vector<Move>* moves) {
  if (place.children.empty() && place.parent != kNone) {
    moves->push_back({.recv_from = place.parent, .out = chunk});
  }
  for (const int32_t child : place.children) {
    Move move{.send_to = child, .in = chunk};
    if (place.parent != kNone && child == place.children.front()) {
      move = {.recv_from = place.parent, .send_to = child, .out = chunk};
    }
    moves->push_back(move);
  }
}

Lane UpLane(const TreePart& tree) {
  Lane lane{tree.channel, {}};
  for (int32_t k = 0; k < tree.chunks; ++k) AddUpMoves(tree.place, tree.first + k, &lane.moves);
  return lane;
}

Lane DownLane(const TreePart& tree) {
  Lane lane{tree.channel, {}};
  for (int32_t k = 0; k < tree.chunks; ++k) AddDownMoves(tree.place, tree.first + k, &lane.moves);
  return lane;
}

std::vector<Lane> UpAndDownLanes(const std::vector<TreePart>& trees) {
  std::vector<Lane> lanes;
  lanes.reserve(2 * trees.size());
  for (const TreePart& tree : trees) lanes.push_back(UpLane(tree));
  for (size_t i = 0; i < trees.size(); ++i) {
    Lane& down = lanes.emplace_back(DownLane(trees[i]));
    if (trees[i].place.parent == kNone) WaitForSums(trees[i], static_cast<int8_t>(i), &down.moves);
  }
  return lanes;
}

}  // namespace lockstep
