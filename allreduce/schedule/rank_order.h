// rank_order.h: one rank receives everybody's input of some chunks and sums it in rank order,
// ((g0+g1)+g2)+..., whatever the order of arrival: the bits of a parameter server. The sum of the
// ranks before its own waits in scratch until the own part can join. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct RankOrderSum {
  int32_t contributors = 1;
  int32_t rank = 0;     // from `contributors` up: has no part of its own
  int32_t first = 0;    // chunks [first, first + count); ends with the sum
  int32_t scratch = 0;  // first of `count` scratch chunks; used by ranks 2..contributors - 1
  int16_t count = 1;
};

// One move for each other contributor, in rank order.
std::vector<Move> SumInRankOrder(const RankOrderSum& sum);

// The first of these moves that overwrites the own part.
inline int32_t JoinMove(const RankOrderSum& sum) { return sum.rank == 0 ? 0 : sum.rank - 1; }

}  // namespace lockstep
