// The predictor's texts, and the bits: schedules run on random floats by an interpreter of this
// file, apart from order.cc and the executor. Two ranks prove nothing, float addition commutes.
#include "allreduce/schedule/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "allreduce/schedule/direct.h"
#include "allreduce/schedule/double_tree.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/schedule/halving_doubling.h"
#include "allreduce/schedule/hierarchical.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/recursive_doubling.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/star.h"
#include "allreduce/schedule/tree.h"

namespace lockstep {
namespace {

using Values = std::vector<float>;

TEST(AdditionTreeTest, TextsAreCanonical) {
  EXPECT_EQ(AdditionTree(*MakeRing({1, 1}), 0), "g0");
  EXPECT_EQ(AdditionTree(*MakeNaive({4, 1}), 0), "((g0+g1)+g2)+g3");
  EXPECT_EQ(AdditionTree(*MakePsExchange({4, 2, 1}), 1), "((g0+g1)+g2)+g3");
  EXPECT_EQ(AdditionTree(*MakeTree({7, 1, 1}), 0), "(g0+((g1+g3)+g4))+((g2+g5)+g6)");
  // Made as ((g2+g3)+g0)+g1 and as ((g3+g0)+g1)+g2.
  EXPECT_EQ(AdditionTree(*MakeRing({4, 1}), 1), "(g0+(g2+g3))+g1");
  EXPECT_EQ(AdditionTree(*MakeRing({4, 1}), 2), "((g0+g3)+g1)+g2");
}

TEST(AdditionTreeTest, SaysWhichRanksDisagree) {
  Schedule naive = *MakeNaive({3, 1});
  naive.ranks[1][1].moves[0].in = kNone;  // forgets its own part
  EXPECT_EQ(AdditionTree(naive, 0),
            "ranks disagree: rank 0 (g0+g1)+g2, rank 1 g0+g2, rank 2 (g0+g1)+g2");
}

TEST(AdditionOrderTest, GivesTheElementsOfEachTree) {
  const Schedule ring = *MakeRing({3, 1});
  EXPECT_EQ(AdditionOrder(ring, 10), "0-3: g0+(g1+g2); 4-6: (g0+g2)+g1; 7-9: (g0+g1)+g2");
  EXPECT_EQ(AdditionOrder(ring, 2), "0-0: g0+(g1+g2); 1-1: (g0+g2)+g1");
  EXPECT_EQ(AdditionOrder(ring, 0), "");
  EXPECT_EQ(RankOrder(3, 0), "");
  EXPECT_EQ(RankOrder(3, 10), "0-9: (g0+g1)+g2");
}

TEST(AdditionOrderTest, WhichAlgorithmsAgree) {
  for (const int64_t count : {1, 2, 7, 1000}) {
    EXPECT_EQ(AdditionOrder(*MakeTree({3, 2, 8}), count), RankOrder(3, count));
    EXPECT_EQ(AdditionOrder(*MakeTree({3, 2, 8}), count), AdditionOrder(*MakeNaive({3, 1}), count));
    for (const int32_t n : {1, 2, 3, 4, 5, 8}) {
      EXPECT_EQ(AdditionOrder(*MakeNaive({n, 3}), count), RankOrder(n, count));
      EXPECT_EQ(AdditionOrder(*MakePsExchange({n, 3, 2}), count), RankOrder(n, count));
    }
    EXPECT_NE(AdditionOrder(*MakeTree({4, 1, 8}), count), RankOrder(4, count));
    EXPECT_NE(AdditionOrder(*MakeTree({4, 1, 8}), count), AdditionOrder(*MakeRing({4, 1}), count));
    EXPECT_NE(AdditionOrder(*MakeRing({3, 1}), count), RankOrder(3, count));
    EXPECT_NE(AdditionOrder(*MakeRing({4, 1}), count), RankOrder(4, count));
  }
  EXPECT_NE(AdditionOrder(*MakeRing({4, 1}), 1000), AdditionOrder(*MakeRing({4, 2}), 1000));
}

// Every algorithm of all_reduce, ps_exchange in each placement.
std::vector<std::pair<std::string, ScheduleSpec>> AllWays(int32_t n) {
  std::vector<std::pair<std::string, ScheduleSpec>> ways;
  for (const Algorithm algorithm : AlgorithmsOf(Collective::kAllReduce)) {
    if (algorithm == Algorithm::kPsExchange) continue;
    ways.push_back({NameOf(algorithm), {.algorithm = algorithm, .world_size = n}});
  }
  for (const Placement placement : {Placement::kSpare, Placement::kColocated, Placement::kSplit}) {
    const bool spare = placement != Placement::kColocated;
    ways.push_back({NameOf(placement),
                    {.algorithm = Algorithm::kPsExchange,
                     .world_size = spare ? n + 2 : n,
                     .servers = 2,
                     .placement = placement}});
  }
  return ways;
}

// The algorithms that promise the same bits, group by group.
std::set<std::set<std::string>> AgreeingWays(int32_t n) {
  std::map<std::string, std::set<std::string>> groups;  // by order
  for (const auto& [name, spec] : AllWays(n)) {
    groups[AdditionOrder(*MakeSchedule(spec), 1000)].insert(name);
  }
  std::set<std::set<std::string>> result;
  for (const auto& [order, names] : groups) result.insert(names);
  return result;
}

// What Open MPI's own algorithms showed at 3 and 4 ranks: recursive doubling and halving-doubling
// are one, whatever sums in rank order is one, and the ring stands alone. With 3 ranks all trees of
// neighbours are rank order too. A hierarchy of one rank a group (3 is prime) is the ring.
TEST(AdditionOrderTest, TableOfAgreeingAlgorithms) {
  using Groups = std::set<std::set<std::string>>;
  EXPECT_EQ(AgreeingWays(2).size(), 1U);  // addition commutes
  EXPECT_EQ(AgreeingWays(3), (Groups{{"ring", "hierarchical"},
                                     {"naive", "star", "direct", "spare", "colocated", "split",
                                      "tree", "recursive_doubling", "halving_doubling"},
                                     {"double_tree"}}));
  EXPECT_EQ(AgreeingWays(4), (Groups{{"ring"},
                                     {"naive", "star", "direct", "spare", "colocated", "split"},
                                     {"recursive_doubling", "halving_doubling", "hierarchical"},
                                     {"tree"},
                                     {"double_tree"}}));
  EXPECT_EQ(AgreeingWays(8), (Groups{{"ring"},
                                     {"naive", "star", "direct", "spare", "colocated", "split"},
                                     {"recursive_doubling", "halving_doubling"},
                                     {"hierarchical"},
                                     {"tree"},
                                     {"double_tree"}}));
}

TEST(AdditionTreeTest, NewAlgorithmsAddAsTheirHeadersSay) {
  EXPECT_EQ(AdditionTree(*MakeStar({4, 1}), 0), "((g0+g1)+g2)+g3");
  EXPECT_EQ(AdditionTree(*MakeDirect({4, 1}), 3), "((g0+g1)+g2)+g3");
  EXPECT_EQ(AdditionTree(*MakeRecursiveDoubling({4, 1}), 0), "(g0+g1)+(g2+g3)");
  EXPECT_EQ(AdditionTree(*MakeRecursiveDoubling({5, 1}), 0), "((g0+g1)+g2)+(g3+g4)");
  EXPECT_EQ(AdditionTree(*MakeHalvingDoubling({5, 1}), 2), "((g0+g1)+g2)+(g3+g4)");
  // Tree A of 5 ranks: 3 above 1 and 4, 1 above 0 and 2.
  EXPECT_EQ(AdditionTree(*MakeDoubleTree({5, 1, 1}), 0), "(((g0+g1)+g2)+g3)+g4");
  EXPECT_EQ(AdditionTree(*MakeHierarchical({4, 2, 1}), 0), "(g0+g1)+(g2+g3)");
}

TEST(AdditionOrderTest, LongTextsAreFingerprints) {
  const std::string many_ranks = AdditionOrder(*MakeNaive({17, 1}), 1000);
  EXPECT_THAT(many_ranks, testing::MatchesRegex("xxh3:[0-9a-f]+, 17 ranks, 1 runs"));
  EXPECT_EQ(many_ranks, RankOrder(17, 1000));
  EXPECT_NE(many_ranks, RankOrder(17, 1001));
  EXPECT_THAT(AdditionOrder(*MakeRing({33, 4}), 100000),
              testing::MatchesRegex("xxh3:[0-9a-f]+, 33 ranks, 132 runs"));
  EXPECT_THAT(AdditionOrder(*MakeRing({16, 16}), 1000), testing::StartsWith("0-3: "));
  EXPECT_THAT(AdditionOrder(*MakeRing({16, 17}), 1000), testing::StartsWith("xxh3:"));
}

// Runs a schedule on floats, lanes in random order, slots without bound.
class FloatRun {
 public:
  FloatRun(const Schedule& schedule, const std::vector<Values>& inputs, uint32_t seed)
      : schedule_(schedule), random_(seed) {
    const auto chunks = static_cast<size_t>(schedule.chunks);
    const size_t count = inputs[0].size();
    for (size_t r = 0; r < schedule.ranks.size(); ++r) {
      std::vector<Values>& cells = memory_.emplace_back(chunks);
      next_.emplace_back(schedule.ranks[r].size(), 0);
      size_t element = 0;
      for (size_t c = 0; c < chunks; ++c) {
        const size_t length = count / chunks + (c < count % chunks ? 1 : 0);
        for (size_t i = 0; i < length; ++i, ++element) {
          cells[c].push_back(r < inputs.size() ? inputs[r][element] : NAN);
        }
      }
      cells.resize(chunks + static_cast<size_t>(schedule.scratch));
    }
    while (!Finished()) {
      const size_t r = random_() % schedule.ranks.size();
      if (next_[r].empty()) continue;
      Step(r, random_() % next_[r].size());
    }
  }

  Values Result(size_t rank) const {
    Values result;
    for (size_t c = 0; c < static_cast<size_t>(schedule_.chunks); ++c) {
      result.insert(result.end(), memory_[rank][c].begin(), memory_[rank][c].end());
    }
    return result;
  }

 private:
  bool Finished() const {
    for (size_t r = 0; r < next_.size(); ++r) {
      for (size_t lane = 0; lane < next_[r].size(); ++lane) {
        if (next_[r][lane] < schedule_.ranks[r][lane].moves.size()) return false;
      }
    }
    return true;
  }

  void Step(size_t rank, size_t lane_index) {
    const Lane& lane = schedule_.ranks[rank][lane_index];
    size_t& next = next_[rank][lane_index];
    if (next == lane.moves.size()) return;
    const Move& move = lane.moves[next];
    if (move.wait_lane != kNone &&
        next_[rank][static_cast<size_t>(move.wait_lane)] <= static_cast<size_t>(move.wait_move)) {
      return;
    }
    std::vector<Values> message(static_cast<size_t>(move.count));
    if (move.recv_from != kNone) {
      auto& wire = wires_[{move.recv_from, static_cast<int32_t>(rank), lane.channel}];
      if (wire.empty()) return;
      message = wire.front();
      wire.pop_front();
    }
    for (size_t k = 0; k < message.size(); ++k) {
      const auto cell = [&](int32_t first) -> Values& {
        return memory_[rank][static_cast<size_t>(first) + k];
      };
      if (move.in != kNone) Add(cell(move.in), &message[k]);
      if (move.fold) Add(cell(move.out), &message[k]);
      if (move.out != kNone) cell(move.out) = message[k];
    }
    if (move.send_to != kNone) {
      wires_[{static_cast<int32_t>(rank), move.send_to, lane.channel}].push_back(message);
    }
    ++next;
  }

  static void Add(const Values& more, Values* value) {
    if (value->empty()) value->assign(more.size(), -0.0F);  // the zero that changes no addend
    for (size_t i = 0; i < value->size(); ++i) (*value)[i] += more[i];
  }

  const Schedule& schedule_;
  std::mt19937 random_;
  std::vector<std::vector<Values>> memory_;  // [rank][chunk]
  std::vector<std::vector<size_t>> next_;    // [rank][lane]
  std::map<std::array<int32_t, 3>, std::deque<std::vector<Values>>> wires_;
};

// Both signs over four decades: the order of additions shows in the last bits.
std::vector<Values> RandomInputs(int32_t n, int64_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-2, 2);
  std::uniform_int_distribution<int> sign(0, 1);
  std::vector<Values> inputs(static_cast<size_t>(n), Values(static_cast<size_t>(count)));
  for (Values& rank : inputs) {
    for (float& value : rank) {
      value = std::pow(10.0F, exponent(random));
      if (sign(random) != 0) value = -value;
    }
  }
  return inputs;
}

// The tree of each element, from a text of AdditionOrder.
std::vector<std::string> TreesOf(const std::string& order) {
  std::vector<std::string> trees;
  for (const std::string& run : std::vector<std::string>(absl::StrSplit(order, "; "))) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(run, ": ");
    const std::pair<std::string, std::string> range = absl::StrSplit(parts.first, '-');
    EXPECT_EQ(std::to_string(trees.size()), range.first) << "runs leave no gap";
    trees.resize(static_cast<size_t>(std::atoll(range.second.c_str())) + 1, parts.second);
  }
  return trees;
}

// Adds as the text says.
float Evaluate(const std::string& text, const std::vector<Values>& inputs, size_t element) {
  struct Sum {
    float value = 0;
    bool started = false;
    void Add(float addend) {
      value = started ? value + addend : addend;
      started = true;
    }
  };
  std::vector<Sum> open(1);  // one for each bracket that is open
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') open.emplace_back();
    if (text[at] == 'g') open.back().Add(inputs[static_cast<size_t>(text[at + 1] - '0')][element]);
    if (text[at] != ')') continue;
    const float value = open.back().value;
    open.pop_back();
    open.back().Add(value);
  }
  return open[0].value;
}

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

struct Outcome {
  std::string name;
  std::string order;
  std::vector<std::string> trees;  // [element]
  Values result;
};

class OrderBitsTest : public testing::TestWithParam<int32_t> {
 protected:
  static constexpr int64_t kCount = 3001;  // a hundred and more a chunk, and prime

  std::vector<Outcome> Outcomes() const {
    const int32_t n = GetParam();
    const int32_t spare = std::max(1, n / 2);
    const std::vector<std::pair<std::string, Schedule>> schedules = {
        {"ring", *MakeRing({n, 1})},
        {"ring of 3 channels", *MakeRing({n, 3})},
        {"naive", *MakeNaive({n, 1})},
        {"naive of 2 channels", *MakeNaive({n, 2})},
        {"star", *MakeStar({n, 1})},
        {"tree", *MakeTree({n, 2, 8})},
        {"double_tree", *MakeDoubleTree({n, 1, 2})},
        {"recursive_doubling", *MakeRecursiveDoubling({n, 1})},
        {"halving_doubling", *MakeHalvingDoubling({n, 1})},
        {"direct", *MakeDirect({n, 1})},
        {"hierarchical", *MakeHierarchical({n, NaturalGroupSize(n), 1})},
        {"ps_exchange", *MakePsExchange({n, 3, 1})},
        {"ps_exchange colocated", *MakePsExchange({n, spare, 1, Placement::kColocated})},
        {"ps_exchange split", *MakePsExchange({n, spare, 1, Placement::kSplit})},
    };
    std::vector<Outcome> outcomes;
    for (const auto& [name, schedule] : schedules) {
      const FloatRun run(schedule, inputs_, 1);
      const std::string order = AdditionOrder(schedule, kCount);
      outcomes.push_back({name, order, TreesOf(order), run.Result(0)});
      for (size_t rank = 1; rank < inputs_.size(); ++rank) {
        const Values other = run.Result(rank);
        EXPECT_TRUE(std::equal(other.begin(), other.end(), outcomes.back().result.begin(),
                               outcomes.back().result.end(), SameBits))
            << name << ": rank " << rank << " differs from rank 0";
      }
    }
    return outcomes;
  }

  const std::vector<Values> inputs_ = RandomInputs(GetParam(), kCount);
};

TEST_P(OrderBitsTest, TheTextsAdditionsGiveTheBits) {
  for (const Outcome& outcome : Outcomes()) {
    ASSERT_EQ(outcome.trees.size(), static_cast<size_t>(kCount)) << outcome.name;
    size_t wrong = 0;
    for (size_t i = 0; i < outcome.trees.size(); ++i) {
      const float predicted = Evaluate(outcome.trees[i], inputs_, i);
      if (!SameBits(predicted, outcome.result[i])) ++wrong;
    }
    EXPECT_EQ(wrong, 0U) << outcome.name;
  }
}

TEST_P(OrderBitsTest, EqualTextsAreEqualBitsAndOthersAreNot) {
  const std::vector<Outcome> outcomes = Outcomes();
  for (const Outcome& a : outcomes) {
    for (const Outcome& b : outcomes) {
      if (&b < &a) continue;
      struct Elements {
        int64_t all = 0;
        int64_t differing = 0;
      };
      std::map<std::pair<std::string, std::string>, Elements> groups;  // by their trees
      int64_t differing = 0;
      for (size_t i = 0; i < a.trees.size(); ++i) {
        Elements& group = groups[{a.trees[i], b.trees[i]}];
        const bool same = SameBits(a.result[i], b.result[i]);
        ++group.all;
        group.differing += same ? 0 : 1;
        differing += same ? 0 : 1;
      }
      EXPECT_EQ(a.order == b.order, differing == 0) << a.name << " and " << b.name;
      for (const auto& [trees, group] : groups) {
        if (trees.first != trees.second && group.all < 50) continue;  // may agree by chance
        EXPECT_EQ(trees.first == trees.second, group.differing == 0)
            << a.name << " " << trees.first << ", " << b.name << " " << trees.second << ": "
            << group.differing << " of " << group.all << " elements differ";
      }
    }
  }
}

std::string Name(const testing::TestParamInfo<int32_t>& info) {
  return absl::StrCat("Ranks", info.param);
}
INSTANTIATE_TEST_SUITE_P(All, OrderBitsTest, testing::Values(2, 3, 4, 5, 8), Name);

}  // namespace
}  // namespace lockstep
