#include "experiments/analyse/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lockstep {
namespace {

using ::testing::DoubleNear;

struct Critical {
  int degrees;
  double alpha;
  double t;
};

// Student's t is closed form at 1 and 2 degrees; the others are printed in every table.
class StudentTable : public ::testing::TestWithParam<Critical> {};

TEST_P(StudentTable, CriticalAndPAgree) {
  const Critical& row = GetParam();
  EXPECT_NEAR(StudentCritical(row.alpha, row.degrees), row.t, 1e-5 * row.t);
  EXPECT_NEAR(StudentTwoSidedP(row.t, row.degrees), row.alpha, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Table, StudentTable,
    ::testing::Values(Critical{1, 0.05, std::tan(0.475 * M_PI)},  // Cauchy
                      Critical{2, 0.05, 0.95 * std::sqrt(2.0 / (1 - 0.95 * 0.95))},
                      Critical{4, 0.05, 2.776445}, Critical{9, 0.05, 2.262157},
                      Critical{9, 0.01, 3.249836}, Critical{30, 0.05, 2.042272},
                      Critical{100, 0.05, 1.983972}),
    [](const auto& test) {
      return "degrees_" + std::to_string(test.param.degrees) + "_permille_" +
             std::to_string(std::lround(test.param.alpha * 1000));
    });

TEST(Quantile, IsLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(Quantile({7}, 0.95), 7);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(Quantile({0, 10, 20, 30, 40}, 0.95), 38);
}

TEST(MedianInterval, OneValueIsItsOwnInterval) {
  const Interval interval = MedianInterval({5});
  EXPECT_EQ(interval.median(), 5);
  EXPECT_EQ(interval.low(), 5);
  EXPECT_EQ(interval.high(), 5);
  EXPECT_EQ(interval.n(), 1);
}

TEST(MedianInterval, ThreeValuesGiveTheirRange) {
  const Interval interval = MedianInterval({9, 1, 5});
  EXPECT_EQ(interval.median(), 5);
  EXPECT_EQ(interval.low(), 1);
  EXPECT_EQ(interval.high(), 9);
}

// Binomial tails: 9 values, [2nd, 8th] covers 96.1 %; 8 values, [2nd, 7th] covers 93 % only, so the
// range.
TEST(MedianInterval, NarrowsOnceOrderStatisticsCover95Percent) {
  const Interval eight = MedianInterval({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(eight.low(), 1);
  EXPECT_EQ(eight.high(), 8);
  const Interval nine = MedianInterval({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(nine.low(), 2);
  EXPECT_EQ(nine.high(), 8);
  EXPECT_EQ(nine.median(), 5);
}

TEST(PairedLogRatio, MatchesTheHandComputedInterval) {
  // Log ratios 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt(3), t(0.05, 2) = 4.302653.
  const auto interval =
      PairedLogRatio({std::exp(0.1), 2 * std::exp(0.2), 5 * std::exp(0.3)}, {1, 2, 5}, 0.05);
  ASSERT_TRUE(interval.has_value());
  const double margin = 4.302653 * 0.1 / std::sqrt(3.0);
  EXPECT_NEAR(interval->ratio, std::exp(0.2), 1e-9);
  EXPECT_NEAR(interval->low, std::exp(0.2 - margin), 1e-6);
  EXPECT_NEAR(interval->high, std::exp(0.2 + margin), 1e-6);
  // At 2 degrees P(|T| > t) = 1 - t / sqrt(2 + t^2).
  const double t = 0.2 / (0.1 / std::sqrt(3.0));
  EXPECT_NEAR(interval->p, 1 - t / std::sqrt(2 + t * t), 1e-9);
  EXPECT_EQ(interval->n, 3);
}

TEST(PairedLogRatio, NeedsTwoPairsOfPositiveValues) {
  EXPECT_FALSE(PairedLogRatio({2}, {1}, 0.05).has_value());
  EXPECT_FALSE(PairedLogRatio({2, 0}, {1, 1}, 0.05).has_value());
  EXPECT_FALSE(PairedLogRatio({2, NAN}, {1, 1}, 0.05).has_value());
}

TEST(PairedLogRatio, WithoutSpreadIsCertain) {
  const auto same = PairedLogRatio({3, 3}, {3, 3}, 0.05);
  EXPECT_EQ(same->p, 1);
  EXPECT_EQ(same->low, 1);
  const auto twice = PairedLogRatio({6, 6}, {3, 3}, 0.05);
  EXPECT_EQ(twice->p, 0);
  EXPECT_DOUBLE_EQ(twice->low, 2);
}

// The promise of a 95 % interval: equal variants with paired noise are told apart in about 5 % of
// cases.
TEST(PairedLogRatio, FalseAlarmsStayNearFivePercent) {
  std::mt19937_64 random(20'260'101);  // NOLINT: a fixed seed is the point
  std::normal_distribution<double> noise(0, 0.05);
  constexpr int kComparisons = 2'000;
  int alarms = 0;
  for (int i = 0; i < kComparisons; ++i) {
    std::vector<double> a;
    std::vector<double> b;
    for (int block = 0; block < 5; ++block) {
      const double mood = noise(random);
      a.push_back(std::exp(mood + noise(random)));
      b.push_back(std::exp(mood + noise(random)));
    }
    alarms += PairedLogRatio(a, b, 0.05)->p < 0.05 ? 1 : 0;
  }
  EXPECT_THAT(alarms / static_cast<double>(kComparisons), DoubleNear(0.05, 0.015));
}

TEST(Holm, StepsDownAndStopsAtTheFirstThatHolds) {
  const std::vector<HolmResult> results = Holm({0.01, 0.04, 0.03, 0.005}, 0.05);
  EXPECT_TRUE(results[3].rejected);   // 0.005 < 0.05 / 4
  EXPECT_TRUE(results[0].rejected);   // 0.01 < 0.05 / 3
  EXPECT_FALSE(results[2].rejected);  // 0.03 > 0.05 / 2
  EXPECT_FALSE(results[1].rejected);  // 0.04 < 0.05 / 1, but the one before held
  EXPECT_DOUBLE_EQ(results[3].alpha, 0.0125);
  EXPECT_DOUBLE_EQ(results[1].alpha, 0.05);
}

}  // namespace
}  // namespace lockstep
