// tree_pieces.h: every tree's moves are these: sums go up, results come down; the trees differ in
// where each rank hangs. Heap: the binary tree of positions in which the parent of p is (p-1)/2.
// Chain: every position hangs below the one before. Fan: all hang below position 0. Halves: the
// binary tree in order, whose odd positions are inner and whose even positions are leaves, so that
// two of them, one shifted by a rank, share no inner rank. Height: floor(log2(n)) for heap and
// halves, n-1 for a chain, 1 for a fan. Cost: O(log n) and the number of children. Pure.
// Paper: Sanders, Speck, Traeff, Parallel Computing 35(12), 2009.
#pragma once

#include <cstdint>
#include <vector>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

enum class TreeForm : uint8_t { kHeap = 0, kChain = 1, kFan = 2, kHalves = 3 };

// Where one node hangs, in positions or ranks; kNone, empty: nobody there.
struct TreePlace {
  int32_t parent = kNone;
  std::vector<int32_t> children;  // their sums are added in this order, after the own part
};

// REQUIRES: 0 <= position < n.
TreePlace PlaceIn(TreeForm form, int32_t position, int32_t n);

// The same tree of ranks, with `root` at position 0: position p is rank (p + root) % n. REQUIRES:
// ranks in 0..n-1.
TreePlace PlaceBelow(TreeForm form, int32_t root, int32_t rank, int32_t n);

// Where a rank hangs in tree 0 and in tree 1 of a double tree: tree 1 is tree 0 seen from the other
// end for even n, where the last position is inner and so must not stay in place under a shift;
// shifted by one rank for odd n. REQUIRES: 0 <= rank < n.
TreePlace PlaceInPair(int32_t tree, int32_t rank, int32_t n);

// Adds the children's sums to mine and sends it up; what leaves for the parent is not kept here.
void AddUpMoves(const TreePlace& place, int32_t chunk, std::vector<Move>* moves);
// Keeps the parent's result and hands it to the children.
void AddDownMoves(const TreePlace& place, int32_t chunk, std::vector<Move>* moves);

// One rank's part of one tree: the chunks it moves, each passed on while the next is on its way.
struct TreePart {
  TreePlace place;
  int32_t channel = 0;
  int32_t first = 0;  // chunk
  int32_t chunks = 1;
};
Lane UpLane(const TreePart& tree);
Lane DownLane(const TreePart& tree);
// All up lanes, then all down lanes, in the order of `trees`, each on a channel of its own; a root
// hands a chunk down when its sum is complete. REQUIRES: at most kChannelsMax trees.
std::vector<Lane> UpAndDownLanes(const std::vector<TreePart>& trees);

}  // namespace lockstep
