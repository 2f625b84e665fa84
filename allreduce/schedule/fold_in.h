// fold_in.h: how algorithms for powers of two run on any n. Of n ranks, 2^k is the largest power of
// two within n; the first n - 2^k odd ranks give their input to the even rank before them, wait,
// and get the result from it. The other 2^k take part, as positions in the order of their ranks, so
// that neighbours in position sum neighbours in rank. Pure. Paper: Thakur, Rabenseifner, Gropp,
// IJHPCA 19(1), 2005.
#pragma once

#include <bit>
#include <cstdint>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

struct FoldIn {
  explicit FoldIn(int32_t n)
      : positions(static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(n)))),
        folded(n - positions) {}

  bool IsFolded(int32_t rank) const { return rank < 2 * folded && rank % 2 == 1; }
  // The rank it gives its input to, or the one that gives it its input; kNone: neither.
  int32_t PartnerOf(int32_t rank) const { return rank < 2 * folded ? rank ^ 1 : kNone; }
  // REQUIRES: not IsFolded(rank).
  int32_t PositionOf(int32_t rank) const { return rank < 2 * folded ? rank / 2 : rank - folded; }
  int32_t RankAt(int32_t position) const {
    return position < folded ? 2 * position : position + folded;
  }

  int32_t positions = 1;  // a power of two
  int32_t folded = 0;     // ranks
};

}  // namespace lockstep
