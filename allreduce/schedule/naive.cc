#include "allreduce/schedule/naive.h"

#include "allreduce/schedule/assemble.h"
#include "allreduce/schedule/fit.h"
#include "allreduce/schedule/rank_order.h"
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

// What the first sum with mine overwrites, `send_lane` must have sent to everybody.
std::vector<Move> SumMoves(const NaiveSpec& spec, int32_t rank, int32_t chunk, int8_t send_lane) {
  const RankOrderSum sum{.contributors = spec.world_size,
                         .rank = rank,
                         .first = chunk,
                         .scratch = spec.channels + chunk};
  std::vector<Move> moves = SumInRankOrder(sum);
  if (moves.empty()) return moves;
  Move& join = moves[static_cast<size_t>(JoinMove(sum))];
  join.wait_lane = send_lane;
  join.wait_move = spec.world_size - 2;  // its last
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
  RETURN_IF_ERROR(CheckWorld("naive", spec.world_size, spec.channels));
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
