// rooted.h: reduce, the sum of all inputs on one rank: a tree's way up; and broadcast, root's bytes
// on every rank: the same tree's way down. The form says which tree (tree_pieces.h): heap for few
// messages in a row, chain (root, root + 1, ..., root - 1) for long data, fan for root alone with
// everybody, which adds in the order root, root + 1, ... Chunks: chunks_per_channel per channel,
// each passed on while the next one is on its way, so along the chain the time is that of one hop
// plus n - 2 chunks. Every rank but root sends (reduce) or receives (broadcast) S bytes; a rank
// with c children receives or sends c*S: at most S (chain), 2S (heap), root (n-1)S (fan). Depth:
// the form's height. Needs 1 slot per connection: no tree has a cycle. What the other ranks hold
// after a reduce is unspecified. Errors: InvalidArgument if a field is < 1, channels >
// kChannelsMax, root is no rank or the collective has no root. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/algorithm.h"
#include "allreduce/schedule/schedule.h"
#include "allreduce/schedule/tree_pieces.h"

namespace lockstep {

struct RootedSpec {
  int32_t world_size = 1;
  int32_t root = 0;
  int32_t chunks_per_channel = 1;
  int32_t channels = 1;
  TreeForm form = TreeForm::kChain;
  Collective collective = Collective::kBroadcast;  // or kReduce
};

absl::StatusOr<Shape> RootedShape(const RootedSpec& spec);
absl::StatusOr<Schedule> MakeRooted(const RootedSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> RootedLanes(const RootedSpec& spec, int32_t rank);

}  // namespace lockstep
