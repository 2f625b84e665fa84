// tree.h: all-reduce on a binary tree: sums go up to rank 0, the result comes down. Heap order: the
// parent of r is (r-1)/2, its children are 2r+1 and 2r+2. Addition: (own + left) + right.
// Chunks: chunks_per_channel per channel, each passed on while the next one is on its way. A rank
// with c children sends (1 + c)S bytes and receives as many, rank 0 one S less of each: at most 3S.
// Depth: 2h messages, h = floor(log2(n)); k chunks take 2h + k - 1 rounds instead of 2hk. Wins
// where latency counts and n is large: the ring's depth is 2(n-1). Lanes: per channel one up and
// one down; rank 0 sends a chunk down when its sum is complete. Needs 1 slot per connection: up
// depends on nothing but up, and down on up. Errors: InvalidArgument if a field is < 1 or channels
// > kChannelsMax. Pure: no I/O, no threads, no clock. Paper: Sanders, Speck, Traeff, Parallel
// Computing 35(12), 2009, which improves on this one tree with two (double_tree.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct TreeSpec {
  int32_t world_size = 1;
  int32_t channels = 1;
  int32_t chunks_per_channel = 1;
};

absl::StatusOr<Shape> TreeShape(const TreeSpec& spec);
absl::StatusOr<Schedule> MakeTree(const TreeSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> TreeLanes(const TreeSpec& spec, int32_t rank);

}  // namespace lockstep
