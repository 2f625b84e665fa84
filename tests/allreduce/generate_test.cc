// Every algorithm has its name and its generator, and one rank's part is that of the whole.
#include "allreduce/schedule/generate.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/tree.h"
#include "allreduce/schedule/verify.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

class GenerateTest : public testing::TestWithParam<Algorithm> {
 protected:
  static ScheduleSpec Spec(int32_t ranks, int32_t channels) {
    const bool served = GetParam() == Algorithm::kPsExchange;
    return {.algorithm = GetParam(),
            .world_size = served ? ranks + 2 : ranks,
            .servers = served ? 2 : 0,
            .channels = channels};
  }
};

TEST_P(GenerateTest, OneRanksPartIsThatOfTheWhole) {
  for (const int32_t ranks : {1, 2, 5}) {
    const ScheduleSpec spec = Spec(ranks, 3);
    const auto whole = MakeSchedule(spec);
    ASSERT_THAT(whole, IsOk());
    EXPECT_THAT(Verify(*whole, AllReduceGoal(*whole)).ToStatus(), IsOk());
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

TEST_P(GenerateTest, RefusesWhatItsGeneratorRefuses) {
  const std::string name = NameOf(GetParam());
  EXPECT_THAT(MakeSchedule(Spec(0, 1)), StatusIs(StatusCode::kInvalidArgument, name + ": "));
  EXPECT_THAT(MakeSchedule(Spec(2, 0)), StatusIs(StatusCode::kInvalidArgument, "channels 0"));
  EXPECT_THAT(MakeRankPart(Spec(2, 0), 0), StatusIs(StatusCode::kInvalidArgument, "channels 0"));
  for (const int32_t rank : {-1, 4}) {
    EXPECT_THAT(MakeRankPart(Spec(2, 1), rank),
                StatusIs(StatusCode::kInvalidArgument,
                         absl::StrCat(name, ": rank ", rank, " is no rank of 0..")));
  }
}

std::string Name(const testing::TestParamInfo<Algorithm>& info) { return NameOf(info.param); }
INSTANTIATE_TEST_SUITE_P(All, GenerateTest,
                         testing::Values(Algorithm::kRing, Algorithm::kNaive, Algorithm::kTree,
                                         Algorithm::kPsExchange),
                         Name);

TEST(GenerateAlgorithms, EachIsItsOwnGenerators) {
  EXPECT_EQ(MakeSchedule({Algorithm::kRing, 5, 0, 2})->ranks, MakeRing({5, 2})->ranks);
  EXPECT_EQ(MakeSchedule({Algorithm::kNaive, 5, 0, 2})->ranks, MakeNaive({5, 2})->ranks);
  EXPECT_EQ(MakeSchedule({Algorithm::kTree, 5, 0, 2})->ranks,
            MakeTree({5, 2, kTreeChunksPerChannel})->ranks);
  EXPECT_EQ(MakeSchedule({Algorithm::kPsExchange, 5, 2, 2})->ranks,
            MakePsExchange({3, 2, 2})->ranks);
}

TEST(GenerateErrors, ServersOnlyWhereThereAreSome) {
  EXPECT_THAT(MakeSchedule({Algorithm::kTree, 5, 2, 1}),
              StatusIs(StatusCode::kInvalidArgument, "tree: has no servers, was given 2"));
  EXPECT_THAT(MakeSchedule({Algorithm::kPsExchange, 5, 0, 1}),
              StatusIs(StatusCode::kInvalidArgument, "servers 0"));
  EXPECT_THAT(MakeSchedule({Algorithm::kPsExchange, 5, 5, 1}),
              StatusIs(StatusCode::kInvalidArgument, "workers 0"));
}

}  // namespace
}  // namespace lockstep
