// reduce.h: the sum of all inputs, on one rank: a tree's way up. The form says which
// (tree_pieces.h): heap for few messages in a row, chain for long data, fan for a sum in the order
// root, root + 1, ... Chunks: chunks_per_channel per channel, each passed on while the next one is
// on its way. Every rank but root sends S bytes; a rank with c children receives c*S: at most 2S
// (heap), S (chain), root (n-1)S (fan). Depth: the form's height. Needs 1 slot per connection. What
// the other ranks hold afterwards is unspecified. Errors: InvalidArgument if a field is < 1,
// channels > kChannelsMax or root is no rank. Pure: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"
#include "allreduce/schedule/tree_pieces.h"

namespace lockstep {

struct ReduceSpec {
  int32_t world_size = 1;
  int32_t root = 0;
  int32_t chunks_per_channel = 1;
  int32_t channels = 1;
  TreeForm form = TreeForm::kHeap;
};

absl::StatusOr<Shape> ReduceShape(const ReduceSpec& spec);
absl::StatusOr<Schedule> MakeReduce(const ReduceSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> ReduceLanes(const ReduceSpec& spec, int32_t rank);

}  // namespace lockstep
