#include "experiments/analyse/anatomy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/analyse/aggregate.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::AddSpan;
using synthetic::Files;
using synthetic::ForSteps;
using synthetic::kMs;
using synthetic::RunWith;
using synthetic::Shape;

Anatomy AnatomyOf(const RunRecord& run) {
  const auto result = Aggregate({run}, nullptr);
  EXPECT_THAT(result, IsOk());
  return result->anatomy_us();
}

struct Case {
  const char* name;
  Shape shape;
  double wait;  // mean of 3, 2, 1 and 0 ms where workers wait for rank 3
  double hidden;
};
class AnatomyOfWay : public ::testing::TestWithParam<Case> {};

TEST_P(AnatomyOfWay, PartsSumToTheStep) {
  const Anatomy anatomy = AnatomyOf(synthetic::Run(GetParam().shape));
  EXPECT_DOUBLE_EQ(anatomy.compute(), 4'000);
  EXPECT_DOUBLE_EQ(anatomy.sync(), 5'000);
  EXPECT_DOUBLE_EQ(anatomy.wait(), GetParam().wait);
  EXPECT_DOUBLE_EQ(anatomy.exposed(), 5'000 - GetParam().wait);
  EXPECT_DOUBLE_EQ(anatomy.hidden(), GetParam().hidden);
}

INSTANTIATE_TEST_SUITE_P(
    All, AnatomyOfWay,
    ::testing::Values(Case{"ring", {.variant = "ring"}, 1'500, 1'000},
                      Case{"ps_sync", {.variant = "ps_sync", .servers = 2}, 1'500, 1'000},
                      Case{"ps_schedule", {.variant = "ps_schedule", .servers = 2}, 1'500, 1'000},
                      // Nobody waits for anybody.
                      Case{"ps_async", {.variant = "ps_async", .servers = 2}, 0, 1'000},
                      Case{"none", {.variant = "none"}, 0, 0}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Anatomy, AWaitIsNeverLongerThanWhatWasWaited) {
  const Anatomy anatomy = AnatomyOf(RunWith({.workers = 2}, [](Files* files) {
    ForSteps(files, 1, [](StepDone* step) {
      step->set_backward_end_ns(step->backward_end_ns() + 100 * kMs);
    });
  }));
  EXPECT_DOUBLE_EQ(anatomy.wait(), 2'500);  // all 5 ms of rank 0, nothing of rank 1
  EXPECT_DOUBLE_EQ(anatomy.exposed(), 2'500);
}

// Without overlap the backward pass stands still for a bucket's exchange: that hides nothing.
TEST(Anatomy, WhatStopsTheBackwardPassIsNotHidden) {
  StepDone step;
  step.set_start_ns(0);
  step.set_compute_ns(4 * kMs);
  step.set_backward_end_ns(6 * kMs);  // 2 ms of them in the call below
  step.set_sync_ns(5 * kMs);
  AddSpan(0, 1 * kMs, 3 * kMs, &step);
  AddSpan(-1, 6 * kMs, 9 * kMs, &step);
  EXPECT_EQ(PartsOf(step, step.backward_end_ns()).hidden, 0);
  step.set_compute_ns(6 * kMs);  // the same calls beside it
  step.set_sync_ns(3 * kMs);
  EXPECT_EQ(PartsOf(step, step.backward_end_ns()).hidden, 2 * kMs);
}

TEST(Anatomy, TheLateWorkerIsKnown) {
  const RunRecord ring = synthetic::Run({.variant = "ring"});
  EXPECT_EQ(LastGradientOf(ring, 7, 1).rank, 3U);
  const RunRecord async = synthetic::Run({.variant = "ps_async", .servers = 1});
  EXPECT_EQ(LastGradientOf(async, 7, 1).rank, 1U);
  EXPECT_EQ(LastGradientOf(async, 7, 1).end_ns, async.workers[1].steps[7].backward_end_ns());
}

}  // namespace
}  // namespace lockstep
