#include "experiments/analyse/aggregate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::ForSteps;
using synthetic::RunWith;
using synthetic::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 20 steps, 2 of warm-up: 18 measured steps of 4 x 32 samples; from the start of step 3 on rank 0
// to the end of step 20 on rank 3: 17 periods + 3 ms (rank) + 9 ms.
double Rate(int64_t period_ms) {
  return 18 * 4 * 32 / ((17.0 * static_cast<double>(period_ms) + 12) / 1000);
}

TEST(Aggregate, HasTheKnownValuesOfOneRun) {
  const auto result = Aggregate({synthetic::Run({.variant = "ring"})}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->id(), "ring");
  EXPECT_EQ(result->variant(), "ring");
  EXPECT_EQ(result->rate(), "");
  EXPECT_EQ(result->addition_order(), "order of ring");
  EXPECT_EQ(result->label(), "Ring all-reduce");
  EXPECT_TRUE(result->ranked());
  EXPECT_TRUE(result->complete());
  EXPECT_NEAR(result->samples_per_s().median(), Rate(10), 1e-6);
  EXPECT_EQ(result->samples_per_s().n(), 1);
  EXPECT_EQ(result->samples_per_s().low(), result->samples_per_s().high());
  // Earliest start to latest end: 3 ms of skew + 9 ms.
  EXPECT_DOUBLE_EQ(result->step_us().p50(), 12'000);
  EXPECT_DOUBLE_EQ(result->step_us().max(), 12'000);
  EXPECT_DOUBLE_EQ(result->anatomy_us().compute(), 4'000);
  EXPECT_DOUBLE_EQ(result->anatomy_us().sync(), 5'000);
  EXPECT_EQ(result->loss().step_size(), 20);
  EXPECT_NEAR(result->loss().value(6), 7.15, 1e-12);
  // Step 7 ends 60 ms + the rank's skew + 9 ms after rank 0 started step 1.
  EXPECT_NEAR(result->loss().time_s(6), (60 + 1.5 + 9) / 1e3, 1e-12);
  EXPECT_EQ(result->loss().samples(6), 7 * 4 * 32);
  EXPECT_NEAR(result->loss().final(), 18.15, 1e-12);  // mean of 16..20, + 0.15
}

TEST(Aggregate, WorkersThatTakeTurnsOnAGpuShareItsTime) {
  RunRecord run = synthetic::Run({.variant = "ring"});
  EXPECT_FALSE(Aggregate({run}, nullptr)->time_shared());
  run.config.mutable_experiment()->set_share_gpu(true);
  EXPECT_TRUE(Aggregate({run}, nullptr)->time_shared());
}

TEST(Aggregate, AsynchronousRanksAreTimedRankByRankToo) {
  const auto result = Aggregate({synthetic::Run({.variant = "ps_async", .servers = 2})}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->ranked());
  EXPECT_EQ(result->rate(), "r/n");
  EXPECT_DOUBLE_EQ(result->step_us().p50(), 9'000);
}

TEST(Aggregate, TheControlIsTimedRankByRankAndNotRanked) {
  const auto result = Aggregate({synthetic::Run({.variant = "none"})}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->ranked());
  EXPECT_DOUBLE_EQ(result->step_us().p50(), 9'000);
  EXPECT_EQ(result->replicas().state(), "diverged");
  EXPECT_EQ(result->replicas().first_diff_step(), 10);
}

TEST(Aggregate, WarmUpIsLeftOutOfEveryTime) {
  const auto result = Aggregate(
      {RunWith({.variant = "ring"},
               [](Files* files) {
                 for (int rank = 0; rank < 4; ++rank) {
                   StepDone* step = (*files)[{"worker", rank}][2].mutable_step();  // step 1
                   step->set_start_ns(step->start_ns() - 500 * synthetic::kMs);
                   step->set_compute_ns(500 * synthetic::kMs);
                 }
               })},
      nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_NEAR(result->samples_per_s().median(), Rate(10), 1e-6);
  EXPECT_DOUBLE_EQ(result->step_us().max(), 12'000);
  EXPECT_DOUBLE_EQ(result->anatomy_us().compute(), 4'000);
}

TEST(Aggregate, BlocksGiveTheIntervalAndSeedsShareABlock) {
  std::vector<RunRecord> runs;
  for (const int block : {0, 1, 2}) {
    for (const uint64_t seed : {1U, 2U}) {
      runs.push_back(synthetic::Run(
          {.variant = "ring", .block = block, .seed = seed, .period_ms = 10 + 5 * block}));
    }
  }
  const auto result = Aggregate(runs, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->samples_per_s().n(), 3);
  EXPECT_NEAR(result->samples_per_s().median(), Rate(15), 1e-6);
  EXPECT_NEAR(result->samples_per_s().low(), Rate(20), 1e-6);
  EXPECT_NEAR(result->samples_per_s().high(), Rate(10), 1e-6);
  EXPECT_THAT(result->block(), ElementsAre(0, 1, 2));
  EXPECT_NEAR(result->samples_per_s_by_block(2), Rate(20), 1e-6);
}

RunRecord KilledAfter(const Shape& shape, size_t steps) {
  return RunWith(shape, [&](Files* files) {
    for (int rank = 0; rank < shape.workers; ++rank) (*files)[{"worker", rank}].resize(2 + steps);
  });
}

TEST(Aggregate, AnUnfinishedRunDoesNotColourFinishedOnes) {
  const auto result = Aggregate(
      {synthetic::Run({.block = 0}), KilledAfter({.block = 1, .period_ms = 99}, 8)}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->complete());
  EXPECT_EQ(result->samples_per_s().n(), 1);
  EXPECT_NEAR(result->samples_per_s().median(), Rate(10), 1e-6);
}

TEST(Aggregate, WhatAnUnfinishedRunMeasuredIsKeptWhenItIsAllThereIs) {
  const auto result = Aggregate({KilledAfter({}, 8)}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->complete());
  EXPECT_TRUE(result->has_samples_per_s());
  EXPECT_EQ(result->loss().step_size(), 8);
}

TEST(Aggregate, NothingMeasuredIsAbsentNotZero) {
  const auto result = Aggregate({KilledAfter({}, 1)}, nullptr);  // 2 steps of warm-up
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->has_samples_per_s());
  EXPECT_FALSE(result->has_step_us());
  EXPECT_FALSE(result->has_anatomy_us());
  EXPECT_FALSE(result->has_bytes());
  EXPECT_FALSE(result->has_busiest());
  const auto none = Aggregate({KilledAfter({}, 0)}, nullptr);
  ASSERT_THAT(none, IsOk());
  EXPECT_FALSE(none->loss().has_final());
  EXPECT_THAT(none->loss().final_reason(), HasSubstr("no step"));
}

TEST(Aggregate, ALossThatIsNotFiniteIsAReason) {
  const auto result = Aggregate({RunWith({.variant = "ring"},
                                         [](Files* files) {
                                           ForSteps(files, 1, [](StepDone* step) {
                                             if (step->step() >= 17) step->set_loss(NAN);
                                           });
                                         })},
                                nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->loss().step_size(), 16);
  EXPECT_FALSE(result->loss().has_final());
  EXPECT_THAT(result->loss().final_reason(), HasSubstr("not finite since step 17"));
}

TEST(Aggregate, RefusesToMixVariants) {
  EXPECT_THAT(Aggregate({}, nullptr), StatusIs(absl::StatusCode::kInvalidArgument, "no run"));
  EXPECT_THAT(Aggregate({synthetic::Run({.variant = "ring"}), synthetic::Run({.variant = "none"})},
                        nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, "ring with 4 workers"));
}

}  // namespace
}  // namespace lockstep
