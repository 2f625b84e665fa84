// halving_doubling.h: all-reduce in 2*log2(p) messages per rank, p = bit_floor(n),
// bandwidth-optimal for n = p. Reduce-scatter: with the partner at distance 1, 2, 4, ... exchange
// halves of what is left and add; all-gather: the same way back, doubling what is complete. For
// other n the first n - p odd ranks fold into the even rank before them (fold_in.h), which costs 2S
// more. The largest messages go between neighbours. Addition: neighbours first, the bits of
// recursive doubling. Chunks: p per channel; a message is a range of p/2, p/4, ..., 1 of them. A
// rank sends and receives 2(p-1)/p * S bytes, S more if it folds a rank in; a folded one S. Depth:
// 2*log2(p), 2 more where ranks fold in. Wins for medium and large messages at a power of two.
// Lanes: one per channel. Needs 1 slot per connection: a rank sends its half before it waits for
// the other. Errors: InvalidArgument if a field is < 1 or channels > kChannelsMax;
// ResourceExhausted if a message needs more chunks than a move counts (n > 32,768). Pure: no I/O,
// no threads, no clock. Paper: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct HalvingDoublingSpec {
  int32_t world_size = 1;
  int32_t channels = 1;
};

absl::StatusOr<Shape> HalvingDoublingShape(const HalvingDoublingSpec& spec);
absl::StatusOr<Schedule> MakeHalvingDoubling(const HalvingDoublingSpec& spec);

// One rank's lanes alone. REQUIRES: spec valid, 0 <= rank < world_size.
std::vector<Lane> HalvingDoublingLanes(const HalvingDoublingSpec& spec, int32_t rank);

}  // namespace lockstep
