// Every collective and algorithm has its name and its generator, and one rank's part is that of the
// whole.
#include "allreduce/schedule/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/barrier.h"
#include "allreduce/schedule/direct.h"
#include "allreduce/schedule/double_tree.h"
#include "allreduce/schedule/halving_doubling.h"
#include "allreduce/schedule/hierarchical.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/recursive_doubling.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/rooted.h"
#include "allreduce/schedule/star.h"
#include "allreduce/schedule/tree.h"
#include "allreduce/schedule/verify.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

struct Pair {
  Collective collective;
  Algorithm algorithm;
  Placement placement = Placement::kSpare;
};
void PrintTo(const Pair& pair, std::ostream* out) {
  *out << NameOf(pair.collective) << " by " << NameOf(pair.algorithm);
}

std::vector<Pair> Pairs() {
  std::vector<Pair> pairs;
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : AlgorithmsOf(collective)) {
      pairs.push_back({collective, algorithm});
    }
  }
  for (const Placement placement : {Placement::kColocated, Placement::kSplit}) {
    pairs.push_back({Collective::kAllReduce, Algorithm::kPsExchange, placement});
  }
  return pairs;
}

class GenerateTest : public testing::TestWithParam<Pair> {
 protected:
  static bool IsServed() { return GetParam().algorithm == Algorithm::kPsExchange; }
  static bool IsBarrier() { return GetParam().collective == Collective::kBarrier; }
  static ScheduleSpec Spec(int32_t ranks, int32_t channels) {
    const int32_t servers = IsServed() ? std::min(ranks, 2) : 0;
    const bool spare = GetParam().placement != Placement::kColocated;
    return {.collective = GetParam().collective,
            .algorithm = GetParam().algorithm,
            .world_size = spare ? ranks + servers : ranks,
            .servers = servers,
            .channels = IsBarrier() ? 1 : channels,
            .placement = GetParam().placement};
  }
};

TEST_P(GenerateTest, OneRanksPartIsThatOfTheWhole) {
  for (const int32_t ranks : {1, 2, 5}) {
    const ScheduleSpec spec = Spec(ranks, 3);
    const auto whole = MakeSchedule(spec);
    ASSERT_THAT(whole, IsOk());
    EXPECT_THAT(Verify(*whole, *GoalOf(spec.collective, *whole)).ToStatus(), IsOk());
    EXPECT_EQ(whole->contributors, ranks);
    for (int32_t rank = 0; rank < spec.world_size; ++rank) {
      const auto part = MakeRankPart(spec, rank);
      ASSERT_THAT(part, IsOk());
      EXPECT_EQ(part->lanes, whole->ranks[static_cast<size_t>(rank)]) << "rank " << rank;
      EXPECT_EQ(part->world_size, whole->world_size);
      EXPECT_EQ(part->contributors, whole->contributors);
      EXPECT_EQ(part->chunks, whole->chunks);
      EXPECT_EQ(part->scratch, whole->scratch);
      EXPECT_EQ(part->slots, whole->slots);
    }
  }
}

TEST_P(GenerateTest, LinkChannelsAreThoseThatTheLanesUse) {
  const ScheduleSpec spec = Spec(5, 3);
  const Schedule schedule = *MakeSchedule(spec);
  int32_t channels = 0;
  for (const auto& lanes : schedule.ranks) {
    for (const Lane& lane : lanes) channels = std::max(channels, lane.channel + 1);
  }
  EXPECT_EQ(LinkChannelsOf(spec), channels);
}

TEST_P(GenerateTest, RefusesWhatItsGeneratorRefuses) {
  EXPECT_THAT(MakeSchedule(Spec(0, 1)), StatusIs(StatusCode::kInvalidArgument, "0"));
  for (const int32_t rank : {-1, 4}) {
    EXPECT_THAT(
        MakeRankPart(Spec(2, 1), rank),
        StatusIs(StatusCode::kInvalidArgument, absl::StrCat("rank ", rank, " is no rank of 0..")));
  }
  if (IsBarrier()) return;
  EXPECT_THAT(MakeSchedule(Spec(2, 0)), StatusIs(StatusCode::kInvalidArgument, "channels 0"));
  EXPECT_THAT(MakeRankPart(Spec(2, 0), 0), StatusIs(StatusCode::kInvalidArgument, "channels 0"));
}

TEST_P(GenerateTest, RefusesSettingsThatChangeNothing) {
  const auto refused = [](const ScheduleSpec& spec, const std::string& what) {
    EXPECT_THAT(MakeSchedule(spec), StatusIs(StatusCode::kInvalidArgument, what));
  };
  ScheduleSpec spec = Spec(4, 1);
  if (!IsServed()) {
    spec.servers = 1;
    refused(spec, "has no servers, was given 1");
    spec = Spec(4, 1);
    spec.placement = Placement::kSplit;
    refused(spec, "has no servers to place split");
  }
  spec = Spec(4, 1);
  spec.root = 1;
  if (spec.collective == Collective::kReduce || spec.collective == Collective::kBroadcast) {
    const auto schedule = MakeSchedule(spec);
    ASSERT_THAT(schedule, IsOk());
    EXPECT_THAT(Verify(*schedule, *GoalOf(spec.collective, *schedule, 1)).ToStatus(), IsOk());
    spec.root = 4;
    refused(spec, "root 4 is no rank of 0..3");
  } else {
    refused(spec, "has no root, was given 1");
  }
  spec = Spec(4, 1);
  spec.group_size = 3;
  refused(spec, spec.algorithm == Algorithm::kHierarchical
                    ? "group_size 3 does not divide world_size 4"
                    : "has no group_size, was given 3");
}

std::string Name(const testing::TestParamInfo<Pair>& info) {
  return absl::StrCat(NameOf(info.param.collective), "_by_", NameOf(info.param.algorithm), "_",
                      NameOf(info.param.placement));
}
INSTANTIATE_TEST_SUITE_P(All, GenerateTest, testing::ValuesIn(Pairs()), Name);

TEST(GenerateAlgorithms, EachIsItsOwnGenerators) {
  const auto lanes = [](Algorithm algorithm) {
    return MakeSchedule({.algorithm = algorithm, .world_size = 6, .channels = 2})->ranks;
  };
  EXPECT_EQ(lanes(Algorithm::kRing), MakeRing({6, 2})->ranks);
  EXPECT_EQ(lanes(Algorithm::kNaive), MakeNaive({6, 2})->ranks);
  EXPECT_EQ(lanes(Algorithm::kTree), MakeTree({6, 2, kTreeChunksPerChannel})->ranks);
  EXPECT_EQ(lanes(Algorithm::kStar), MakeStar({6, 2})->ranks);
  EXPECT_EQ(lanes(Algorithm::kDoubleTree), MakeDoubleTree({6, 2, kTreeChunksPerChannel})->ranks);
  EXPECT_EQ(lanes(Algorithm::kHalvingDoubling), MakeHalvingDoubling({6, 2})->ranks);
  EXPECT_EQ(lanes(Algorithm::kDirect), MakeDirect({6, 2})->ranks);
  EXPECT_EQ(lanes(Algorithm::kHierarchical), MakeHierarchical({6, 2, 2})->ranks);
  EXPECT_EQ(lanes(Algorithm::kRecursiveDoubling), MakeRecursiveDoubling({6, 2})->ranks);
  ScheduleSpec spec{.algorithm = Algorithm::kHierarchical, .world_size = 6, .group_size = 3};
  EXPECT_EQ(MakeSchedule(spec)->ranks, MakeHierarchical({6, 3, 1})->ranks);
  spec = {.algorithm = Algorithm::kPsExchange, .world_size = 5, .servers = 2, .channels = 2};
  EXPECT_EQ(MakeSchedule(spec)->ranks, MakePsExchange({3, 2, 2})->ranks);
  spec.placement = Placement::kSplit;
  EXPECT_EQ(MakeSchedule(spec)->ranks, MakePsExchange({3, 2, 2, Placement::kSplit})->ranks);
  spec.placement = Placement::kColocated;
  EXPECT_EQ(MakeSchedule(spec)->ranks, MakePsExchange({5, 2, 2, Placement::kColocated})->ranks);
}

TEST(GenerateAlgorithms, TheUsualOneStandsFirst) {
  const auto usual = [](Collective collective) { return AlgorithmsOf(collective).front(); };
  EXPECT_EQ(usual(Collective::kAllReduce), Algorithm::kRing);
  EXPECT_EQ(usual(Collective::kReduce), Algorithm::kTree);
  EXPECT_EQ(usual(Collective::kBroadcast), Algorithm::kRing);
  EXPECT_EQ(usual(Collective::kReduceScatter), Algorithm::kRing);
  EXPECT_EQ(usual(Collective::kAllGather), Algorithm::kRing);
  EXPECT_EQ(usual(Collective::kBarrier), Algorithm::kRecursiveDoubling);
}

TEST(GenerateErrors, APairWithoutAGeneratorNamesThoseThatHaveOne) {
  EXPECT_THAT(MakeSchedule({.algorithm = Algorithm::kAuto, .world_size = 2}),
              StatusIs(StatusCode::kInvalidArgument,
                       "no schedule for all_reduce by auto; there is ring, naive, tree"));
  EXPECT_THAT(MakeSchedule({.collective = Collective::kBarrier, .world_size = 2}),
              StatusIs(StatusCode::kInvalidArgument,
                       "no schedule for barrier by ring; there is recursive_doubling"));
  EXPECT_THAT(
      MakeRankPart(
          {.collective = Collective::kAllGather, .algorithm = Algorithm::kTree, .world_size = 2},
          0),
      StatusIs(StatusCode::kInvalidArgument,
               "no schedule for all_gather by tree; there is ring, direct"));
}

TEST(GenerateErrors, ServersLeaveRoomForWorkers) {
  const ScheduleSpec spec{.algorithm = Algorithm::kPsExchange, .world_size = 5};
  EXPECT_THAT(MakeSchedule(spec), StatusIs(StatusCode::kInvalidArgument, "servers 0"));
  ScheduleSpec all_servers = spec;
  all_servers.servers = 5;
  EXPECT_THAT(MakeSchedule(all_servers), StatusIs(StatusCode::kInvalidArgument, "workers 0"));
}

}  // namespace
}  // namespace lockstep
