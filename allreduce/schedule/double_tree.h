// double_tree.h: all-reduce on two binary trees, each with half of the data. Inner ranks of one are
// leaves of the other, so no rank sends in both directions for both halves and none is hot. Tree A
// is in order: odd ranks are inner. Tree B is A seen from the other end (rank n-1 first) for even
// n, A shifted by one rank for odd n (rank 0 is then a leaf in both). Addition: (own + left) +
// right. Chunks: 2 * chunks_per_tree per channel, A's half first. An inner rank sends and receives
// (1 + c)S/2 bytes for its c children, a leaf S/2: at most 2S in all. Depth: 2h messages, h =
// floor(log2(n)); k chunks per tree take about 2h + 2(k - 1) rounds of S/(2k). Wins where the
// ring's latency counts and one tree's 3S hurt. Lanes: per channel and tree one up and one down.
// Link channels: 2 per channel, since one rank may be the other's parent in A and its child in B.
// Needs 1 slot per connection. Errors: InvalidArgument if a field is < 1 or channels > kChannelsMax
// / 2. Pure: no I/O, no threads, no clock. Paper: Sanders, Speck, Traeff, Parallel Computing
// 35(12), 2009.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct DoubleTreeSpec {
  int32_t world_size = 1;
  int32_t channels = 1;  // pairs of trees
  int32_t chunks_per_tree = 1;
};

absl::StatusOr<Shape> DoubleTreeShape(const DoubleTreeSpec& spec);
absl::StatusOr<Schedule> MakeDoubleTree(const DoubleTreeSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> DoubleTreeLanes(const DoubleTreeSpec& spec, int32_t rank);

}  // namespace lockstep
