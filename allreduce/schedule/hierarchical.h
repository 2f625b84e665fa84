// hierarchical.h: all-reduce for hosts of g ranks each: a ring's reduce-scatter within the group, a
// ring of the ranks with the same place in all m = n/g groups for the shard that each then holds, a
// ring's all-gather within the group. Group i is ranks [ig, (i+1)g). Chunks: n per channel; a shard
// is m of them and travels as one message within a group. A rank sends and receives 2(g-1)/g S
// bytes within its group and 2(m-1)/m S/g beyond it, together the ring's 2(n-1)/n S; messages:
// 2(g-1) + 2(m-1), which is the depth too. Wins over the ring where links between groups are slow,
// or n is large: g = sqrt(n) makes the fewest messages. With one group, or groups of one rank, it
// is a ring. Lanes: one per channel. Needs 2 slots per connection where a ring has fused moves (m >
// 1 or g > 2). Errors: InvalidArgument if a field is < 1, channels > kChannelsMax, or group_size
// doesn't divide world_size; ResourceExhausted if a shard has more chunks than a move counts. Pure:
// no I/O, no threads, no clock. Paper: Goyal et al., arXiv 1706.02677, 2017 (section 4); Jia et
// al., arXiv 1807.11205, 2018.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct HierarchicalSpec {
  int32_t world_size = 1;
  int32_t group_size = 1;
  int32_t channels = 1;
};

// The divisor of n nearest its root. REQUIRES: n >= 1.
int32_t NaturalGroupSize(int32_t n);

absl::StatusOr<Shape> HierarchicalShape(const HierarchicalSpec& spec);
absl::StatusOr<Schedule> MakeHierarchical(const HierarchicalSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> HierarchicalLanes(const HierarchicalSpec& spec, int32_t rank);

}  // namespace lockstep
