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

// CASES R27: 1000 samples over 1, 3, 4 and 7 workers. Over all workers an epoch reads each id once,
// but for the remainder that the rule names, and the split comes from the seed alone.
class CoverageTest : public testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Workers, CoverageTest, testing::Values(1, 3, 4, 7),
                         testing::PrintToStringParamName());

TEST_P(CoverageTest, AnEpochReadsEachSampleOnceOverAllWorkers) {
  SamplerOptions options = {.seed = 9, .samples = 1000, .world_size = GetParam()};
  options.global_batch = int64_t{12} * GetParam();
  const auto read = [&](int64_t epoch) {
    std::vector<int64_t> ids;
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      Sampler sampler = MakeSampler(options);
      const int64_t steps = sampler.steps_per_epoch();
      for (int64_t step = epoch * steps + 1; step <= (epoch + 1) * steps; ++step) {
        for (const int64_t id : sampler.Batch(step)) ids.push_back(id);
      }
    }
    return ids;
  };
  const int64_t dropped = 1000 % options.global_batch;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<int64_t> ids = read(epoch);
    EXPECT_EQ(ids.size(), static_cast<size_t>(1000 - dropped));
    EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), ids.size()) << "none twice";
    EXPECT_EQ(ids, read(epoch)) << "reproducible from the seed";
  }
  options.rank = 0;
  EXPECT_EQ(
      MakeSampler(options).Rule(),
      absl::StrCat("of 1000 samples each epoch reads ", 1000 - dropped,
                   ", each once by one worker, and drops the last ", dropped, " of its order"));
}

TEST(SamplerTest, TheRuleSaysSoWhenNothingIsDropped) {
  EXPECT_EQ(MakeSampler({.samples = 96, .global_batch = 12}).Rule(),
            "each epoch reads all 96 samples, each once by one worker");
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
