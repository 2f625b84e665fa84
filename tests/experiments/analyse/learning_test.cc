#include "experiments/analyse/learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "experiments/analyse/aggregate.h"
#include "experiments/analyse/loss.h"
#include "tests/experiments/analyse/run_files.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::Find;
using synthetic::ForSteps;
using synthetic::RunWith;
using synthetic::Shape;
using ::testing::ElementsAre;

// The loss of step k is loss(k) on every rank.
RunRecord Learns(const Shape& shape, const std::function<double(int64_t)>& loss) {
  return RunWith(shape, [&](Files* files) {
    for (int rank = 0; rank < shape.workers; ++rank) {
      ForSteps(files, rank, [&](StepDone* step) { step->set_loss(loss(step->step())); });
    }
  });
}
double Falls(int64_t step) { return 10 - 0.1 * static_cast<double>(step); }
double FallsFaster(int64_t step) { return 10 - 0.3 * static_cast<double>(step); }

RunFile Compared(const std::vector<RunRecord>& runs) {
  RunFile file;
  std::map<std::pair<std::string, int>, std::vector<RunRecord>> of_variant;
  for (const RunRecord& run : runs) {
    of_variant[{run.config.variant().name(), run.config.world_size()}].push_back(run);
  }
  for (const auto& [variant, own] : of_variant) {
    const auto result = Aggregate(own, nullptr);
    EXPECT_THAT(result, IsOk());
    *file.add_runs() = *result;
  }
  CompareLearning(runs, &file);
  return file;
}

TEST(Smoothed, IsAMeanOfTheLastFive) {
  EXPECT_THAT(Smoothed({1, 3, 5, 7, 9, 11}), ElementsAre(1, 2, 3, 4, 5, 7));
}

TEST(CompareLearning, AtEqualSamplesAndAtEqualTime) {
  // ps_async takes 5 ms a step, ring 10 ms: at 20 steps of ps_async, ring has ended step 10.
  RunFile file = Compared({Learns({.variant = "ring"}, Falls),
                           Learns({.variant = "ps_async", .servers = 1, .period_ms = 5}, Falls)});
  const LossResult& ring = Find(&file, "ring")->loss();
  const LossResult& async = Find(&file, "ps_async")->loss();
  EXPECT_NEAR(ring.at_equal_samples(), 10 - 0.1 * 18, 1e-9);  // mean of steps 16..20
  EXPECT_NEAR(async.at_equal_samples(), 10 - 0.1 * 18, 1e-9);
  EXPECT_NEAR(async.at_equal_time(), 10 - 0.1 * 18, 1e-9);
  // ps_async ends after 95 + 1.5 + 9 ms; ring's step 10 ends at 90 + 10.5, its 11th 10 ms later.
  EXPECT_NEAR(ring.at_equal_time(), 10 - 0.1 * 8, 1e-9);
}

TEST(CompareLearning, TheLeastTrainedVariantGivesTheSamples) {
  RunFile file = Compared({Learns({.variant = "ring", .steps = 20}, Falls),
                           Learns({.variant = "tree", .steps = 12}, Falls)});
  EXPECT_NEAR(Find(&file, "ring")->loss().at_equal_samples(), 10 - 0.1 * 10, 1e-9);
}

// The control saves the exchange: nobody's budget, and no loss where it has ended.
TEST(CompareLearning, TheControlsEndIsNoBudget) {
  RunFile file = Compared(
      {Learns({.variant = "ring"}, Falls), Learns({.variant = "none", .period_ms = 5}, Falls)});
  EXPECT_NEAR(Find(&file, "ring")->loss().at_equal_time(), 10 - 0.1 * 18, 1e-9);
  EXPECT_FALSE(Find(&file, "none")->loss().has_at_equal_time());
  EXPECT_TRUE(Find(&file, "none")->loss().has_at_equal_samples());
}

TEST(CompareLearning, WhoDivergesSpoilsNobodysNumbers) {
  const auto blows_up = [](int64_t step) { return step < 8 ? 10.0 : NAN; };
  RunFile file = Compared({Learns({.variant = "ring"}, Falls),
                           Learns({.variant = "ps_async", .servers = 1}, blows_up)});
  EXPECT_NEAR(Find(&file, "ring")->loss().at_equal_samples(), 10 - 0.1 * 18, 1e-9);
  EXPECT_FALSE(Find(&file, "ps_async")->loss().has_at_equal_samples());
  EXPECT_FALSE(Find(&file, "ps_async")->loss().has_at_equal_time());
  EXPECT_EQ(Find(&file, "ps_async")->target().reached(), 0);
  EXPECT_FALSE(Find(&file, "ps_async")->target().has_time_s());
}

TEST(CompareLearning, OtherNumbersOfWorkersAreAnotherComparison) {
  RunFile file = Compared({Learns({.variant = "ring", .workers = 4, .steps = 20}, Falls),
                           Learns({.variant = "ring", .workers = 2, .steps = 20}, FallsFaster),
                           Learns({.variant = "tree", .workers = 2, .steps = 12}, Falls)});
  EXPECT_EQ(file.runs(1).workers(), 4);
  EXPECT_NEAR(file.runs(1).loss().at_equal_samples(), 10 - 0.1 * 18, 1e-9);
  EXPECT_NE(file.runs(1).target().loss(), file.runs(0).target().loss());
}

// The slower of ring and tree has 10 - 0.1 * 13 = 8.7 as mean of steps 11..15; ps_async, slower
// still, must then train on, and does not get there.
TEST(Target, IsWhatEverySynchronousWayReachesAtThreeQuarters) {
  const auto crawls = [](int64_t step) { return 10 - 0.01 * static_cast<double>(step); };
  RunFile file =
      Compared({Learns({.variant = "ring"}, Falls), Learns({.variant = "tree"}, FallsFaster),
                Learns({.variant = "ps_async", .servers = 1}, crawls),
                Learns({.variant = "none"}, FallsFaster)});
  const TargetResult& ring = Find(&file, "ring")->target();
  EXPECT_NEAR(ring.loss(), 8.7, 1e-9);
  EXPECT_EQ(ring.seeds(), 1);
  EXPECT_EQ(ring.reached(), 1);
  EXPECT_NEAR(ring.samples().median(), 15 * 4 * 32, 1e-9);
  EXPECT_NEAR(ring.time_s().median(), (140 + 1.5 + 9) / 1e3, 1e-9);
  EXPECT_LT(Find(&file, "tree")->target().samples().median(), 15 * 4 * 32);
  EXPECT_EQ(Find(&file, "ps_async")->target().reached(), 0);
}

TEST(Target, TheSpecsOwnComesFirst) {
  std::vector<RunRecord> runs = {Learns({.variant = "ring"}, Falls)};
  runs[0].config.mutable_experiment()->mutable_train()->set_target_loss(9.8);
  RunFile file = Compared(runs);
  EXPECT_EQ(Find(&file, "ring")->target().loss(), 9.8);
  EXPECT_NEAR(Find(&file, "ring")->target().samples().median(), 3 * 4 * 32, 1e-9);  // 9.9, 9.8, 9.7
}

// Seed s falls by 0.1 s a step: later seeds get there earlier. Seed 1 never does.
TEST(Target, IsAMedianOverSeedsEachCountedOnce) {
  std::vector<RunRecord> runs;
  for (const int block : {0, 1}) {
    for (const uint64_t seed : {1U, 2U, 3U, 4U}) {
      runs.push_back(Learns({.variant = "ring", .block = block, .seed = seed}, [&](int64_t step) {
        return 10 - 0.1 * static_cast<double>(seed) * static_cast<double>(step);
      }));
      runs.back().config.mutable_experiment()->mutable_train()->set_target_loss(7.0);
    }
  }
  RunFile file = Compared(runs);
  const TargetResult& target = Find(&file, "ring")->target();
  EXPECT_EQ(target.seeds(), 4);
  EXPECT_EQ(target.reached(), 3);
  // Smoothed loss is that of 2 steps before: seeds 2, 3 and 4 are at 7.0 after 17, 12 and 10 steps.
  EXPECT_NEAR(target.samples().median(), 12 * 128, 1e-9);
  EXPECT_NEAR(target.samples().low(), 10 * 128, 1e-9);
  EXPECT_NEAR(target.samples().high(), 17 * 128, 1e-9);
  EXPECT_EQ(target.samples().n(), 3);
}

TEST(Target, ASeedThatMissesInOneBlockHasMissed) {
  std::vector<RunRecord> runs = {
      Learns({.variant = "ring", .block = 0}, Falls),
      Learns({.variant = "ring", .block = 1}, [](int64_t) { return 99.0; })};
  for (RunRecord& run : runs) {
    run.config.mutable_experiment()->mutable_train()->set_target_loss(9);
  }
  RunFile file = Compared(runs);
  EXPECT_EQ(Find(&file, "ring")->target().seeds(), 1);
  EXPECT_EQ(Find(&file, "ring")->target().reached(), 0);
}

}  // namespace
}  // namespace lockstep
