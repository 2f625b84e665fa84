// How often the comparison is right: false alarms on real records, and power on a planted gap.
#include "experiments/analyse/speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "tests/experiments/analyse/ring_against_ring.h"
#include "tests/experiments/analyse/run_files.h"

namespace lockstep {
namespace {

constexpr int kComparisons = 1'000;
constexpr int kBlocks = 10;

SpeedComparison Compare(const std::vector<double>& a, const std::vector<double>& b) {
  VariantResult first = synthetic::MakeVariant("first", "all_reduce", 1);
  VariantResult second = synthetic::MakeVariant("second", "all_reduce", 1);
  synthetic::SetRates(a, &first);
  synthetic::SetRates(b, &second);
  SpeedComparison comparison = CompareSpeed({&first, &second});
  comparison.first = nullptr;  // of this call
  comparison.second = nullptr;
  return comparison;
}

// Blocks drawn with replacement; which of the two runs of a block stands for which variant is
// tossed, since they are the same. A winner is a claim that one is faster; the interval alone,
// which also backs "equal in practice", must keep its level too.
TEST(AgainstItself, RingWinsAtMostItsShare) {
  std::mt19937_64 random(20'260'102);  // NOLINT: a fixed seed is the point
  std::uniform_int_distribution<size_t> block(0, synthetic::kRing.size() - 1);
  std::bernoulli_distribution swap(0.5);
  int winners = 0;
  int excluded = 0;
  for (int i = 0; i < kComparisons; ++i) {
    std::vector<double> a;
    std::vector<double> b;
    for (int k = 0; k < kBlocks; ++k) {
      const size_t drawn = block(random);
      std::pair<double, double> pair = {synthetic::kRing[drawn], synthetic::kRingAgain[drawn]};
      if (swap(random)) std::swap(pair.first, pair.second);
      a.push_back(pair.first);
      b.push_back(pair.second);
    }
    const SpeedComparison comparison = Compare(a, b);
    winners += comparison.claim == Speed::kFaster ? 1 : 0;
    excluded += comparison.interval.p < kSpeedAlpha ? 1 : 0;
  }
  RecordProperty("winners_per_mille", winners);
  EXPECT_LE(winners, 65);
  EXPECT_LE(excluded, 65);
  EXPECT_GT(excluded, 10) << "a test that never fires would pass as well";
}

// 5 % slower, 3 % noise a run, and a mood of the host that both runs of a block share.
double Found(double slowdown, double mood_noise) {
  std::mt19937_64 random(20'260'103);  // NOLINT: a fixed seed is the point
  std::normal_distribution<double> noise(0, 0.03);
  std::normal_distribution<double> mood(0, mood_noise);
  int found = 0;
  for (int i = 0; i < kComparisons; ++i) {
    std::vector<double> a;
    std::vector<double> b;
    for (int k = 0; k < kBlocks; ++k) {
      const double host = mood(random);
      a.push_back(1'000 * std::exp(host + noise(random)));
      b.push_back(1'000 * (1 - slowdown) * std::exp(host + noise(random)));
    }
    found += Compare(a, b).claim == Speed::kFaster ? 1 : 0;
  }
  return found / static_cast<double>(kComparisons);
}

TEST(PlantedSlowdown, OfFivePercentIsFoundAtTenBlocks) {
  EXPECT_GE(Found(0.05, 0), 0.8);
  EXPECT_GE(Found(0.05, 0.2), 0.8);  // pairing takes the host's mood out
}

TEST(PlantedSlowdown, OfNothingIsNot) { EXPECT_LE(Found(0, 0), 0.05); }

}  // namespace
}  // namespace lockstep
