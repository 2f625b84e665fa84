// recursive_doubling.h: all-reduce in log2(p) exchanges of everything with a partner at distance 1,
// 2, 4, ..., p = bit_floor(n). For other n the first n - p odd ranks fold into the even rank before
// them and get the result back (fold_in.h). Both partners of an exchange add the same two values,
// so all ranks agree by bits; addition: neighbours first, ((g0+g1)+(g2+g3))+..., which are the bits
// of halving-doubling. Chunks: one per channel. A rank sends and receives log2(p)*S bytes in as
// many messages, one more if it folds a rank in; a folded one sends and receives S. Depth: log2(p),
// 1 more where ranks fold in, 2 if more than p/2 do. Wins for small messages: no algorithm has
// fewer in a row. Lanes: one per channel. Needs 1 slot per connection: a tile is one message on
// each. Errors: InvalidArgument if a field is < 1 or channels > kChannelsMax. Pure: no I/O, no
// threads, no clock. Paper: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct RecursiveDoublingSpec {
  int32_t world_size = 1;
  int32_t channels = 1;
};

absl::StatusOr<Shape> RecursiveDoublingShape(const RecursiveDoublingSpec& spec);
absl::StatusOr<Schedule> MakeRecursiveDoubling(const RecursiveDoublingSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> RecursiveDoublingLanes(const RecursiveDoublingSpec& spec, int32_t rank);

}  // namespace lockstep
