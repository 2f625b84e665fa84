// broadcast.h: every rank gets root's bytes: a tree's way down. The form says which
// (tree_pieces.h): chain root -> root + 1 -> ... -> root - 1 for long data, heap for few messages
// in a row, fan from root itself. Chunks: as many as asked per channel, each passed on while the
// next one arrives, so along the chain the time is that of one hop plus n - 2 chunks. Every rank
// but root receives S bytes; a rank with c children sends c*S: at most S (chain), 2S (heap), root
// (n-1)S (fan). Depth: the form's height. Needs 1 slot per connection: no tree has a cycle. Errors:
// InvalidArgument if a field is < 1, channels > kChannelsMax or root is no rank. Pure: no I/O,
// threads or clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"
#include "allreduce/schedule/tree_pieces.h"

namespace lockstep {

struct BroadcastSpec {
  int32_t world_size = 1;
  int32_t root = 0;
  int32_t chunks = 1;  // per channel
  int32_t channels = 1;
  TreeForm form = TreeForm::kChain;
};

absl::StatusOr<Shape> BroadcastShape(const BroadcastSpec& spec);
absl::StatusOr<Schedule> MakeBroadcast(const BroadcastSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> BroadcastLanes(const BroadcastSpec& spec, int32_t rank);

}  // namespace lockstep
