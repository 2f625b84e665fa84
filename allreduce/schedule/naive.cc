#include "allreduce/schedule/naive.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/assemble.h"
#include "base/check.h"

namespace lockstep {
namespace {

std::vector<Move> SendMoves(const NaiveSpec& spec, int32_t rank, int32_t chunk) {
  std::vector<Move> moves;
  for (int32_t hop = 1; hop < spec.world_size; ++hop) {
    moves.push_back({.send_to = (rank + hop) % spec.world_size, .in = chunk});
  }
  return moves;
}

// Sums in rank order: the ranks before mine in scratch, then mine joins them, then the ranks after
// it. What the first sum with mine overwrites, `send_lane` must have sent to everybody.
std::vector<Move> SumMoves(const NaiveSpec& spec, int32_t rank, int32_t chunk, int8_t send_lane) {
  const int32_t n = spec.world_size;
  const int32_t scratch = spec.channels + chunk;
  const int32_t joins = rank == 0 ? 1 : rank - 1;  // the peer whose input is added to mine
  std::vector<Move> moves;
  for (int32_t peer = 0; peer < n; ++peer) {
    if (peer == rank) continue;
    const int32_t place = peer < joins ? scratch : chunk;
    Move move{.recv_from = peer, .in = place, .out = place};
    if (peer == 0 && peer < joins) move.in = kNone;  // the first one has nothing to be added to
    if (peer == joins) {
      move.wait_lane = send_lane;
      move.wait_move = n - 2;  // its last
      if (rank > 1) {          // (message + scratch) + mine
        move.in = scratch;
        move.fold = true;
      }
    }
    moves.push_back(move);
  }
  return moves;
}

}  // namespace

std::vector<Lane> NaiveLanes(const NaiveSpec& spec, int32_t rank) {
  CHECK(rank >= 0 && rank < spec.world_size) << "rank " << rank << " of " << spec.world_size;
  std::vector<Lane> lanes;
  lanes.reserve(2 * static_cast<size_t>(spec.channels));
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back({channel, SendMoves(spec, rank, channel)});
  }
  for (int32_t channel = 0; channel < spec.channels; ++channel) {
    lanes.push_back({channel, SumMoves(spec, rank, channel, static_cast<int8_t>(channel))});
  }
  return lanes;
}

absl::StatusOr<Shape> NaiveShape(const NaiveSpec& spec) {
  if (spec.world_size < 1 || spec.channels < 1 || spec.channels > kChannelsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("naive: world_size ", spec.world_size, " and channels ", spec.channels,
                     " must both be at least 1, channels at most ", kChannelsMax));
  }
  return Shape{.world_size = spec.world_size,
               .contributors = spec.world_size,
               .chunks = spec.channels,
               .scratch = spec.world_size > 2 ? spec.channels : 0,
               .slots = 2};  // works with one; two let a tile arrive while the last one is summed
}

absl::StatusOr<Schedule> MakeNaive(const NaiveSpec& spec) {
  return Assemble<NaiveSpec>({NaiveShape, NaiveLanes}, spec);
}

}  // namespace lockstep
