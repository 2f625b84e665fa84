// mutants.h: every ring with one move dropped, redirected or misaddressed, and the judgement on all
// of them. A mutant is equivalent when no random order of brute_force.h goes wrong; the verifier
// must catch the others.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/verify.h"
#include "tests/allreduce/brute_force.h"

namespace lockstep {

inline std::vector<Schedule> RingMutants(const Schedule& ring) {
  std::vector<Schedule> mutants;
  const auto change = [&](size_t rank, size_t move, int32_t Move::*field, int32_t never) {
    const int32_t now = ring.ranks[rank][0].moves[move].*field;
    if (now == kNone) return;
    for (int32_t value = 0; value < ring.world_size; ++value) {  // as many chunks as ranks
      if (value == now || value == never) continue;
      mutants.push_back(ring);
      mutants.back().ranks[rank][0].moves[move].*field = value;
    }
  };
  for (size_t rank = 0; rank < ring.ranks.size(); ++rank) {
    for (size_t move = 0; move < ring.ranks[rank][0].moves.size(); ++move) {
      mutants.push_back(ring);
      std::vector<Move>& moves = mutants.back().ranks[rank][0].moves;
      moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(move));
      change(rank, move, &Move::send_to, static_cast<int32_t>(rank));
      change(rank, move, &Move::recv_from, static_cast<int32_t>(rank));
      change(rank, move, &Move::in, kNone);
      change(rank, move, &Move::out, kNone);
    }
  }
  return mutants;
}

inline void ExpectEveryMutantCaught(int32_t n) {
  const Schedule ring = *MakeRing({n, 1});
  constexpr int kRuns = 100;
  constexpr uint32_t kSeed = 1;
  ASSERT_TRUE(BruteForce(ring).RunsRight(kRuns, kSeed)) << "the judge itself is wrong";
  const std::vector<Schedule> mutants = RingMutants(ring);
  size_t equivalent = 0;
  size_t missed = 0;
  for (const Schedule& mutant : mutants) {
    if (BruteForce(mutant).RunsRight(kRuns, kSeed)) {
      ++equivalent;
    } else if (Verify(mutant, AllReduceGoal(mutant)).findings.empty()) {
      ++missed;
    }
  }
  EXPECT_GE(mutants.size(), static_cast<size_t>(n * 2 * (n - 1)));
  EXPECT_EQ(equivalent, 0U) << "of " << mutants.size();
  EXPECT_EQ(missed, 0U) << "of " << mutants.size();
}

}  // namespace lockstep
