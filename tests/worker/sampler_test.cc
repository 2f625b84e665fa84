#include "worker/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

Sampler MakeSampler(const SamplerOptions& options) {
  absl::StatusOr<Sampler> sampler = Sampler::Make(options);
  EXPECT_THAT(sampler, IsOk());
  return *std::move(sampler);
}

// Fixed for ever: recorded runs are repeated from their seed.
TEST(SamplerTest, GoldenFirstIds) {
  Sampler sampler = MakeSampler({.seed = 1, .samples = 1797, .global_batch = 8});
  EXPECT_EQ(sampler.Batch(1), (std::vector<int64_t>{421, 482, 1379, 1763, 1412, 2, 1244, 1564}));
  EXPECT_EQ(sampler.Batch(225), (std::vector<int64_t>{338, 1089, 44, 750, 1339, 79, 1695, 1740}));
}

class SamplerRanksTest : public testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(WorldSizes, SamplerRanksTest, testing::Values(1, 2, 4, 12),
                         testing::PrintToStringParamName());

TEST_P(SamplerRanksTest, RanksAreDisjointAndTheirUnionIsTheGlobalBatch) {
  const SamplerOptions whole = {.seed = 3, .samples = 100, .global_batch = 12};
  Sampler reference = MakeSampler(whole);
  for (int64_t step = 1; step <= 20; ++step) {
    const std::vector<int64_t> expected = reference.Batch(step);
    std::vector<int64_t> interleaved(expected.size());
    for (int32_t rank = 0; rank < GetParam(); ++rank) {
      SamplerOptions options = whole;
      options.rank = rank;
      options.world_size = GetParam();
      Sampler sampler = MakeSampler(options);
      const std::vector<int64_t> ids = sampler.Batch(step);
      ASSERT_EQ(static_cast<int64_t>(ids.size()), sampler.rank_batch());
      for (size_t i = 0; i < ids.size(); ++i) {
        interleaved.at(i * static_cast<size_t>(GetParam()) + static_cast<size_t>(rank)) = ids[i];
      }
    }
    EXPECT_EQ(interleaved, expected) << "step " << step;  // equal, and so disjoint: see below
  }
}

TEST(SamplerTest, EveryIdOccursAtMostOnceAnEpochAndTheRemainderIsDropped) {
  Sampler sampler = MakeSampler({.seed = 5, .samples = 100, .global_batch = 12});
  ASSERT_EQ(sampler.steps_per_epoch(), 8);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int64_t> read;
    for (int64_t step = 1 + epoch * 8; step <= (epoch + 1) * 8; ++step) {
      EXPECT_EQ(sampler.epoch(step), epoch);
      for (const int64_t id : sampler.Batch(step)) read.push_back(id);
    }
    const std::set<int64_t> distinct(read.begin(), read.end());
    EXPECT_EQ(distinct.size(), 96U);  // 100 - 100 % 12
    EXPECT_GE(*distinct.begin(), 0);
    EXPECT_LT(*distinct.rbegin(), 100);
    orders.insert(read);
  }
  EXPECT_EQ(orders.size(), 4U) << "each epoch has its own order";
}

TEST(SamplerTest, AnEpochThatFitsReadsEverySample) {
  Sampler sampler = MakeSampler({.seed = 5, .samples = 96, .global_batch = 12});
  std::set<int64_t> read;
  for (int64_t step = 1; step <= 8; ++step) {
    for (const int64_t id : sampler.Batch(step)) read.insert(id);
  }
  EXPECT_EQ(read.size(), 96U);
}

TEST(SamplerTest, AStepsIdsDependOnSeedAndStepAlone) {
  const SamplerOptions options = {.seed = 7, .samples = 50, .global_batch = 10};
  Sampler forward = MakeSampler(options);
  Sampler backward = MakeSampler(options);
  std::vector<std::vector<int64_t>> batches;
  for (int64_t step = 1; step <= 15; ++step) batches.push_back(forward.Batch(step));
  for (int64_t step = 15; step >= 1; --step) {
    EXPECT_EQ(backward.Batch(step), batches[static_cast<size_t>(step - 1)]) << "step " << step;
  }
  Sampler other = MakeSampler({.seed = 8, .samples = 50, .global_batch = 10});
  EXPECT_NE(other.Batch(1), batches[0]);
}

TEST(SamplerTest, EveryPositionIsReachedByEveryId) {
  std::vector<int> first(5);
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Sampler sampler = MakeSampler({.seed = seed, .samples = 5, .global_batch = 1});
    ++first.at(static_cast<size_t>(sampler.Batch(1).front()));
  }
  for (const int count : first) EXPECT_NEAR(count, 200, 60);  // standard deviation 13
}

struct BadCase {
  std::string name;
  SamplerOptions options;
  std::string message;
};
class SamplerErrorTest : public testing::TestWithParam<BadCase> {};
INSTANTIATE_TEST_SUITE_P(
    Cases, SamplerErrorTest,
    testing::Values(
        BadCase{"NotDivisible",
                {.samples = 100, .global_batch = 10, .world_size = 4},
                "global_batch 10 is not divisible by 4 workers"},
        BadCase{"BatchAboveData", {.samples = 9, .global_batch = 10}, "is 10, but the data has 9"},
        BadCase{"NoBatch", {.samples = 9, .global_batch = 0}, "is 0, but the data has 9"},
        BadCase{"NoData", {.samples = 0, .global_batch = 1}, "0 samples"},
        BadCase{"RankOutside",
                {.samples = 9, .global_batch = 2, .rank = 2, .world_size = 2},
                "rank 2 of 2"}),
    [](const auto& test) { return test.param.name; });

TEST_P(SamplerErrorTest, NamesBothNumbers) {
  EXPECT_THAT(Sampler::Make(GetParam().options),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().message));
}

}  // namespace
}  // namespace lockstep
