// Every schedule with one move dropped, redirected or misaddressed, one fold flipped or one wait
// left out. A mutant is equivalent when no random order of brute_force.h goes wrong; the verifier
// must catch the others. One source for two tiers: small worlds in quick, larger ones in full.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/broadcast.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ping_pong.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/tree.h"
#include "allreduce/schedule/verify.h"
#include "tests/allreduce/brute_force.h"
#include "tests/allreduce/tier.h"

namespace lockstep {
namespace {

class Mutants {
 public:
  static std::vector<Schedule> Of(const Schedule& schedule) {
    Mutants mutants(schedule);
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (size_t lane = 0; lane < schedule.ranks[rank].size(); ++lane) {
        for (size_t move = 0; move < schedule.ranks[rank][lane].moves.size(); ++move) {
          mutants.AddAll({rank, lane, move});
        }
      }
    }
    return std::move(mutants.mutants_);
  }

 private:
  struct Place {
    size_t rank;
    size_t lane;
    size_t move;
  };
  explicit Mutants(const Schedule& schedule) : schedule_(schedule) {}

  void AddAll(const Place& at) {
    mutants_.push_back(schedule_);
    std::vector<Move>& moves = mutants_.back().ranks[at.rank][at.lane].moves;
    moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(at.move));
    const Move move = schedule_.ranks[at.rank][at.lane].moves[at.move];
    const auto rank = static_cast<int32_t>(at.rank);
    Change(at, &Move::send_to, schedule_.world_size, rank);
    Change(at, &Move::recv_from, schedule_.world_size, rank);
    Change(at, &Move::in, schedule_.chunks + schedule_.scratch, kNone);
    Change(at, &Move::out, schedule_.chunks + schedule_.scratch, kNone);
    if (move.out != kNone) Add(at)->fold = !move.fold;
    if (move.wait_lane != kNone) Add(at)->wait_lane = kNone;
  }

  // All other values of a field that is set.
  void Change(const Place& at, int32_t Move::*field, int32_t end, int32_t never) {
    const int32_t now = schedule_.ranks[at.rank][at.lane].moves[at.move].*field;
    if (now == kNone) return;
    for (int32_t value = 0; value < end; ++value) {
      if (value != now && value != never) Add(at)->*field = value;
    }
  }

  Move* Add(const Place& at) {
    mutants_.push_back(schedule_);
    return &mutants_.back().ranks[at.rank][at.lane].moves[at.move];
  }

  const Schedule& schedule_;
  std::vector<Schedule> mutants_;
};

struct MutantCase {
  std::string name;
  Schedule schedule;
  Goal goal;
};
void PrintTo(const MutantCase& param, std::ostream* out) { *out << param.name; }
class MutantTest : public testing::TestWithParam<MutantCase> {};

TEST_P(MutantTest, IsNeverEquivalentAndTheVerifierCatchesIt) {
  const MutantCase& param = GetParam();
  constexpr int kRuns = 100;
  constexpr uint32_t kSeed = 1;
  ASSERT_TRUE(BruteForce(param.schedule, param.goal).RunsRight(kRuns, kSeed))
      << "the judge itself is wrong";
  const std::vector<Schedule> mutants = Mutants::Of(param.schedule);
  size_t equivalent = 0;
  size_t missed = 0;
  for (const Schedule& mutant : mutants) {
    if (BruteForce(mutant, param.goal).RunsRight(kRuns, kSeed)) {
      ++equivalent;
    } else if (Verify(mutant, param.goal).findings.empty()) {
      ++missed;
    }
  }
  EXPECT_FALSE(mutants.empty());
  EXPECT_EQ(equivalent, 0U) << "of " << mutants.size();
  EXPECT_EQ(missed, 0U) << "of " << mutants.size();
}

MutantCase AllReduceCase(const std::string& name, const absl::StatusOr<Schedule>& schedule) {
  return {name, *schedule, AllReduceGoal(*schedule)};
}

std::vector<MutantCase> Cases() {
  std::vector<MutantCase> cases;
  const auto ring = [&](int32_t n) {
    cases.push_back(AllReduceCase(absl::StrCat("Ring", n), MakeRing({n, 1})));
  };
  const auto naive = [&](int32_t n, int32_t channels) {
    cases.push_back(
        AllReduceCase(absl::StrCat("Naive", n, "Channels", channels), MakeNaive({n, channels})));
  };
  const auto tree = [&](int32_t n, int32_t chunks) {
    cases.push_back(
        AllReduceCase(absl::StrCat("Tree", n, "Chunks", chunks), MakeTree({n, 1, chunks})));
  };
  const auto ps = [&](int32_t workers, int32_t servers, int32_t channels) {
    cases.push_back(
        AllReduceCase(absl::StrCat("Workers", workers, "Servers", servers, "Channels", channels),
                      MakePsExchange({workers, servers, channels})));
  };
  if (kFullTier) {
    for (const int32_t n : {6, 7, 8, 9}) ring(n);
    for (const int32_t n : {5, 6, 7}) naive(n, 1);
    naive(4, 2);
    for (const int32_t n : {6, 7, 8}) tree(n, 2);
    for (const int32_t n : {4, 5, 6}) ps(n, 3, 1);
    ps(3, 2, 2);
    return cases;
  }
  for (const int32_t n : {2, 3, 4, 5}) ring(n);
  for (const int32_t n : {2, 3, 4}) naive(n, 1);
  for (const int32_t n : {2, 3, 4, 5}) tree(n, 2);
  ps(2, 1, 1);
  ps(3, 2, 1);
  const Schedule chain = *MakeBroadcast({3, 1, 2});
  cases.push_back({"Broadcast3", chain, BroadcastGoal(chain, 1)});
  const Schedule ping_pong = *MakePingPong({2});
  cases.push_back({"PingPong", ping_pong, BroadcastGoal(ping_pong, 0)});
  return cases;
}

std::string Name(const testing::TestParamInfo<MutantCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, MutantTest, testing::ValuesIn(Cases()), Name);

}  // namespace
}  // namespace lockstep
