#include "allreduce/schedule/rank_order.h"

namespace lockstep {

std::vector<Move> SumInRankOrder(const RankOrderSum& sum) {
  const bool has_part = sum.rank < sum.contributors;
  // The peer whose input is added to the own part; without one, everything meets in `first`.
  const int32_t joins = !has_part ? kNone : sum.rank == 0 ? 1 : sum.rank - 1;
  std::vector<Move> moves;
  for (int32_t peer = 0; peer < sum.contributors; ++peer) {
    if (peer == sum.rank) continue;
    const int32_t place = peer < joins ? sum.scratch : sum.first;
    Move move{.recv_from = peer, .in = place, .out = place, .count = sum.count};
    const bool joined = has_part && peer >= joins;
    if (peer == 0 && !joined) move.in = kNone;  // the first one has nothing to be added to
    if (peer == joins && sum.rank > 1) {        // (message + scratch) + mine
      move.in = sum.scratch;
      move.fold = true;
    }
    moves.push_back(move);
  }
  return moves;
}

}  // namespace lockstep
