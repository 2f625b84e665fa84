// Every schedule with one move dropped, redirected, misaddressed or of another length, one fold
// flipped or one wait left out. A mutant is equivalent when no random order of brute_force.h goes
// wrong; the verifier must catch the others. Apart from these: two neighbouring moves of a lane
// swapped, where many mutants are harmless; those are counted and each must be of a kind argued
// below. One source for two tiers: small worlds in quick, larger ones in full.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/barrier.h"
#include "allreduce/schedule/double_tree.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/schedule/ping_pong.h"
#include "allreduce/schedule/rooted.h"
#include "allreduce/schedule/tree.h"
#include "allreduce/schedule/verify.h"
#include "tests/allreduce/brute_force.h"
#include "tests/allreduce/tier.h"

namespace lockstep {
namespace {

struct Place {
  size_t rank;
  size_t lane;
  size_t move;
};

std::vector<Place> PlacesOf(const Schedule& schedule) {
  std::vector<Place> places;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t lane = 0; lane < schedule.ranks[rank].size(); ++lane) {
      for (size_t move = 0; move < schedule.ranks[rank][lane].moves.size(); ++move) {
        places.push_back({rank, lane, move});
      }
    }
  }
  return places;
}

class Mutants {
 public:
  static std::vector<Schedule> Of(const Schedule& schedule) {
    Mutants mutants(schedule);
    for (const Place& place : PlacesOf(schedule)) mutants.AddAll(place);
    return std::move(mutants.mutants_);
  }

 private:
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
    Add(at)->count = static_cast<int16_t>(move.count + 1);
    if (move.count > 1) Add(at)->count = static_cast<int16_t>(move.count - 1);
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
  size_t equivalent = 0;  // why: where the case is made
};
void PrintTo(const MutantCase& param, std::ostream* out) { *out << param.name; }
class MutantTest : public testing::TestWithParam<MutantCase> {};

constexpr int kRuns = 100;
constexpr uint32_t kSeed = 1;

TEST_P(MutantTest, TheVerifierCatchesEachThatIsNotEquivalent) {
  const MutantCase& param = GetParam();
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
  EXPECT_EQ(equivalent, param.equivalent) << "of " << mutants.size();
  EXPECT_EQ(missed, 0U) << "of " << mutants.size();
}

// Swaps that the verifier lets pass, and the judge too. Two moves of one lane may change places:
//   apart: they share no end of a connection and no chunk that one of them writes, so each has the
//     same value, and every connection the same messages, in either order. Only the time differs.
//   sums: both add a message to one place. Sets have no order; floats have one, which is the order
//     predictor's to see (order.h).
//   meets: of a barrier, whose messages are without content: what goes out later tells no less, and
//     what goes out earlier lacked nothing new: 5 ranks have 3 rounds, which could tell 8. With 8
//     ranks every message brings news, and the swaps that lose some are caught.
struct Swaps {
  int caught = 0;
  int apart = 0;
  int sums = 0;
  int meets = 0;
  int unexplained = 0;
  int missed = 0;  // wrong by the judge
  bool operator==(const Swaps&) const = default;
};
void PrintTo(const Swaps& swaps, std::ostream* out) {
  *out << "caught " << swaps.caught << ", apart " << swaps.apart << ", sums " << swaps.sums
       << ", meets " << swaps.meets << ", unexplained " << swaps.unexplained << ", missed "
       << swaps.missed;
}

bool SameEnd(const Move& a, const Move& b) {
  return (a.send_to != kNone && a.send_to == b.send_to) ||
         (a.recv_from != kNone && a.recv_from == b.recv_from);
}

bool TouchesWhatIsWrittenBy(const Move& writer, const Move& move) {
  if (writer.out == kNone) return false;
  for (const int32_t first : {move.in, move.out}) {
    const bool overlap = first < writer.out + writer.count && writer.out < first + move.count;
    if (first != kNone && overlap) return true;
  }
  return false;
}

bool AddsToItsPlace(const Move& move) {
  return move.recv_from != kNone && move.send_to == kNone && (move.in != kNone || move.fold);
}

int* KindOf(const Move& a, const Move& b, const Goal& goal, Swaps* swaps) {
  if (SameEnd(a, b)) return &swaps->unexplained;
  if (!TouchesWhatIsWrittenBy(a, b) && !TouchesWhatIsWrittenBy(b, a)) return &swaps->apart;
  if (goal.meets) return &swaps->meets;
  const bool sums = AddsToItsPlace(a) && AddsToItsPlace(b) && a.out == b.out;
  return sums ? &swaps->sums : &swaps->unexplained;
}

Swaps SwapsOf(const MutantCase& param) {
  Swaps swaps;
  for (const Place& at : PlacesOf(param.schedule)) {
    Schedule mutant = param.schedule;
    std::vector<Move>& moves = mutant.ranks[at.rank][at.lane].moves;
    if (at.move + 1 == moves.size() || moves[at.move] == moves[at.move + 1]) continue;
    std::swap(moves[at.move], moves[at.move + 1]);
    if (!Verify(mutant, param.goal).findings.empty()) {
      ++swaps.caught;
      continue;
    }
    if (!BruteForce(mutant, param.goal).RunsRight(kRuns, kSeed)) ++swaps.missed;
    ++*KindOf(moves[at.move], moves[at.move + 1], param.goal, &swaps);
  }
  return swaps;
}

TEST_P(MutantTest, SwapsThatSurviveAreHarmlessAndArgued) {
  const Swaps swaps = SwapsOf(GetParam());
  EXPECT_EQ(swaps.unexplained, 0);
  EXPECT_EQ(swaps.missed, 0);
}

MutantCase CaseOf(const std::string& name, const ScheduleSpec& spec, size_t equivalent = 0) {
  const Schedule schedule = *MakeSchedule(spec);
  return {name, schedule, *GoalOf(spec.collective, schedule, spec.root), equivalent};
}

MutantCase AllReduceCase(const std::string& name, const absl::StatusOr<Schedule>& schedule) {
  return {name, *schedule, AllReduceGoal(*schedule)};
}

class CaseList {
 public:
  void AllReduce(Algorithm algorithm, const std::vector<int32_t>& sizes, int32_t channels = 1) {
    for (const int32_t n : sizes) {
      cases_.push_back(CaseOf(absl::StrCat(NameOf(algorithm), "_", n, "_channels_", channels),
                              {.algorithm = algorithm, .world_size = n, .channels = channels}));
    }
  }
  // Two chunks show all that eight do.
  void Trees(const std::vector<int32_t>& sizes) {
    for (const int32_t n : sizes) {
      cases_.push_back(AllReduceCase(absl::StrCat("tree_", n), MakeTree({n, 1, 2})));
      cases_.push_back(AllReduceCase(absl::StrCat("double_tree_", n), MakeDoubleTree({n, 1, 2})));
    }
  }
  void Rooted(int32_t n, int32_t root) {
    for (const TreeForm form : {TreeForm::kHeap, TreeForm::kChain, TreeForm::kFan}) {
      const std::string name = absl::StrCat("_", n, "_form_", static_cast<int>(form));
      const Schedule reduce = *MakeRooted({n, root, 2, 1, form, Collective::kReduce});
      cases_.push_back({"reduce" + name, reduce, *GoalOf(Collective::kReduce, reduce, root)});
      const Schedule broadcast = *MakeRooted({n, root, 2, 1, form});
      cases_.push_back({"broadcast" + name, broadcast, BroadcastGoal(broadcast, root)});
    }
  }
  void Ps(Placement placement, int32_t workers, int32_t servers, int32_t channels = 1) {
    const bool spare = placement != Placement::kColocated;
    cases_.push_back(
        CaseOf(absl::StrCat("ps_", NameOf(placement), "_", workers, "_", servers, "_", channels),
               {.algorithm = Algorithm::kPsExchange,
                .world_size = workers + (spare ? servers : 0),
                .servers = servers,
                .channels = channels,
                .placement = placement}));
  }
  void Halves(const std::vector<int32_t>& sizes) {
    for (const Collective half : {Collective::kReduceScatter, Collective::kAllGather}) {
      for (const Algorithm algorithm : AlgorithmsOf(half)) {
        for (const int32_t n : sizes) {
          cases_.push_back(CaseOf(absl::StrCat(NameOf(half), "_", NameOf(algorithm), "_", n),
                                  {.collective = half, .algorithm = algorithm, .world_size = n}));
        }
      }
    }
  }
  // Equivalent: a fold more. The messages' content counts for nothing.
  void Barriers(const std::vector<int32_t>& sizes) {
    for (const int32_t n : sizes) {
      const Schedule barrier = *MakeBarrier({n});
      size_t folds = 0;
      for (const auto& lanes : barrier.ranks) folds += lanes[0].moves.size() - 1;
      cases_.push_back(
          {absl::StrCat("barrier_", n), barrier, *GoalOf(Collective::kBarrier, barrier), folds});
    }
  }
  void PingPong() {
    const Schedule ping_pong = *MakePingPong({2});
    cases_.push_back({"ping_pong", ping_pong, BroadcastGoal(ping_pong, 0)});
  }
  std::vector<MutantCase> Take() { return std::move(cases_); }

 private:
  std::vector<MutantCase> cases_;
};

std::vector<MutantCase> QuickCases() {
  CaseList cases;
  cases.AllReduce(Algorithm::kRing, {2, 3, 4, 5});
  cases.AllReduce(Algorithm::kNaive, {2, 3, 4});
  cases.AllReduce(Algorithm::kStar, {2, 3, 4});
  cases.AllReduce(Algorithm::kRecursiveDoubling, {2, 3, 4, 5, 6});
  cases.AllReduce(Algorithm::kHalvingDoubling, {2, 3, 4, 5});
  cases.AllReduce(Algorithm::kDirect, {2, 3});
  cases.AllReduce(Algorithm::kHierarchical, {4});
  cases.Trees({2, 3, 4});
  cases.Ps(Placement::kSpare, 2, 1);
  cases.Ps(Placement::kSpare, 3, 2);
  cases.Ps(Placement::kColocated, 3, 1);
  cases.Ps(Placement::kColocated, 3, 2);
  cases.Ps(Placement::kSplit, 2, 1);
  cases.Rooted(3, 1);
  cases.Halves({2, 3});
  cases.Barriers({2, 3, 4, 5});
  cases.PingPong();
  return cases.Take();
}

std::vector<MutantCase> FullCases() {
  CaseList cases;
  cases.AllReduce(Algorithm::kRing, {6, 7, 8, 9});
  cases.AllReduce(Algorithm::kNaive, {5, 6, 7});
  cases.AllReduce(Algorithm::kNaive, {4}, 2);
  cases.AllReduce(Algorithm::kStar, {5, 6, 7});
  cases.AllReduce(Algorithm::kRecursiveDoubling, {7, 8, 9, 12});
  cases.AllReduce(Algorithm::kHalvingDoubling, {6, 7, 8, 9});
  cases.AllReduce(Algorithm::kHalvingDoubling, {3}, 2);
  cases.AllReduce(Algorithm::kDirect, {4, 5, 6});
  cases.AllReduce(Algorithm::kHierarchical, {6, 8, 9});
  cases.Trees({5, 6, 7, 8});
  for (const int32_t n : {4, 5, 6}) cases.Ps(Placement::kSpare, n, 3);
  cases.Ps(Placement::kSpare, 3, 2, 2);
  for (const int32_t n : {4, 5}) cases.Ps(Placement::kColocated, n, 2);
  cases.Ps(Placement::kColocated, 3, 2, 2);
  cases.Ps(Placement::kSplit, 3, 1);
  cases.Ps(Placement::kSplit, 3, 2);
  cases.Ps(Placement::kSplit, 3, 3);
  cases.Rooted(5, 2);
  cases.Halves({4, 5});
  cases.Barriers({6, 7, 8});
  return cases.Take();
}

std::string Name(const testing::TestParamInfo<MutantCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, MutantTest, testing::ValuesIn(kFullTier ? FullCases() : QuickCases()),
                         Name);

Swaps SwapsOfAllReduce(Algorithm algorithm, int32_t n) {
  return SwapsOf(CaseOf("", {.algorithm = algorithm, .world_size = n}));
}

// A chain of fused moves has one right order; sends to several peers, receives from several peers,
// and a send beside a receive have many.
TEST(SwapTest, Survivors) {
  EXPECT_EQ(SwapsOfAllReduce(Algorithm::kRing, 5), (Swaps{.caught = 40}));
  EXPECT_EQ(SwapsOfAllReduce(Algorithm::kRecursiveDoubling, 6), (Swaps{.caught = 10}));
  EXPECT_EQ(SwapsOfAllReduce(Algorithm::kNaive, 4), (Swaps{.caught = 6, .apart = 8, .sums = 2}));
  EXPECT_EQ(SwapsOfAllReduce(Algorithm::kHalvingDoubling, 4), (Swaps{.caught = 12, .apart = 16}));
  EXPECT_EQ(SwapsOfAllReduce(Algorithm::kDirect, 4), (Swaps{.caught = 11, .apart = 24, .sums = 5}));
  EXPECT_EQ(SwapsOfAllReduce(Algorithm::kHierarchical, 4), (Swaps{.caught = 16, .apart = 8}));
  const Schedule barrier = *MakeBarrier({8});
  EXPECT_EQ(SwapsOf({"", barrier, *GoalOf(Collective::kBarrier, barrier)}),
            (Swaps{.caught = 8, .meets = 16}));
}

}  // namespace
}  // namespace lockstep
