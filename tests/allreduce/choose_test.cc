#include "allreduce/schedule/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string>

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr CostModel kLoopback = {
    .latency_ns = 8'000, .overhead_ns = 2'000, .beta_ns_per_byte = 0.3, .gamma_ns_per_byte = 0.1};
constexpr int64_t kMiB = int64_t{1} << 20;

Algorithm Chosen(int32_t n, int64_t bytes, const CostModel& cost) {
  return ChooseAlgorithm(n, bytes, cost).algorithm();
}

TEST(ChooseTest, SmallCallsTakeFewMessagesLargeOnesFewBytes) {
  const std::set<Algorithm> few_messages = {Algorithm::kRecursiveDoubling, Algorithm::kNaive,
                                            Algorithm::kDirect};
  const std::set<Algorithm> few_bytes = {Algorithm::kRing, Algorithm::kHalvingDoubling,
                                         Algorithm::kDirect, Algorithm::kHierarchical,
                                         Algorithm::kDoubleTree};
  for (const int32_t n : {3, 4, 7, 8, 16, 33}) {
    EXPECT_TRUE(few_messages.contains(Chosen(n, 64, kLoopback))) << n;
    EXPECT_TRUE(few_bytes.contains(Chosen(n, 64 * kMiB, kLoopback))) << n;
  }
  // Where every message holds the port, the number of messages is what counts.
  const CostModel busy{.overhead_ns = 10'000, .beta_ns_per_byte = 0.3};
  EXPECT_EQ(Chosen(16, 64, busy), Algorithm::kRecursiveDoubling);
  EXPECT_EQ(Chosen(16, 64 * kMiB, busy), Algorithm::kHalvingDoubling);
}

TEST(ChooseTest, TheFastestCandidateComesFirst) {
  const Choice choice = ChooseAlgorithm(8, kMiB, kLoopback);
  EXPECT_GE(choice.candidates.size(), 8U);
  EXPECT_TRUE(
      std::is_sorted(choice.candidates.begin(), choice.candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.time_ns < b.time_ns; }));
  for (const Candidate& candidate : choice.candidates) {
    EXPECT_NE(candidate.algorithm, Algorithm::kPsExchange);
    EXPECT_EQ(candidate.channels, 1);
    const auto form =
        ClosedFormOf({.algorithm = candidate.algorithm, .world_size = 8}, kLoopback, kMiB);
    ASSERT_TRUE(form.has_value());
    EXPECT_EQ(candidate.time_ns, form->time_ns);
  }
}

TEST(ChooseTest, EqualTimesGoByTheOrderOfNames) {
  const Choice free = ChooseAlgorithm(8, kMiB, {});  // everything costs nothing
  ASSERT_GE(free.candidates.size(), 2U);
  EXPECT_EQ(free.candidates[0].algorithm, Algorithm::kRing);
  EXPECT_EQ(free.candidates[1].algorithm, Algorithm::kNaive);
}

TEST(ChooseTest, TheSameInputsGiveTheSameChoice) {
  for (const int32_t n : {1, 2, 5, 8, 33}) {
    for (int64_t bytes = 1; bytes <= 64 * kMiB; bytes *= 4) {
      const Choice once = ChooseAlgorithm(n, bytes, kLoopback);
      const Choice again = ChooseAlgorithm(n, bytes, kLoopback);
      EXPECT_EQ(once.algorithm(), again.algorithm());
      EXPECT_EQ(once.Why(), again.Why());
    }
  }
}

TEST(ChooseTest, SaysWhyInTimes) {
  Choice choice;
  choice.candidates = {{Algorithm::kRing, 1, 210'000},
                       {Algorithm::kHalvingDoubling, 1, 304'000},
                       {Algorithm::kTree, 1, 443'700},
                       {Algorithm::kStar, 1, 9e9}};
  EXPECT_EQ(choice.Why(), "ring: 0.21 ms modelled; halving_doubling 0.304, tree 0.444");
  choice.candidates.resize(1);
  EXPECT_EQ(choice.Why(), "ring: 0.21 ms modelled");
  EXPECT_THAT(ChooseAlgorithm(8, 64, kLoopback).Why(), HasSubstr(" ms modelled; "));
  EXPECT_THAT(ChooseAlgorithm(1, 64, kLoopback).Why(), StartsWith("ring: 0 ms modelled"));
}

TEST(ChooseTest, IsCheapEnoughToAskForEachSize) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) ChooseAlgorithm(64, kMiB + i, kLoopback);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  EXPECT_LT(elapsed.count() / 10, 5);
}

TEST(CrossingTest, IsTheLeastSizeFromWhichLargeIsNotSlower) {
  for (const int32_t n : {4, 7, 16}) {
    const auto crossing =
        CrossingBytes(n, Algorithm::kRecursiveDoubling, Algorithm::kRing, kLoopback, 4, 64 * kMiB);
    ASSERT_TRUE(crossing.has_value()) << n;
    const auto ns = [&](Algorithm algorithm, int64_t bytes) {
      return ClosedFormOf({.algorithm = algorithm, .world_size = n}, kLoopback, bytes)->time_ns;
    };
    EXPECT_LE(ns(Algorithm::kRing, *crossing), ns(Algorithm::kRecursiveDoubling, *crossing));
    EXPECT_GT(ns(Algorithm::kRing, *crossing - 1),
              ns(Algorithm::kRecursiveDoubling, *crossing - 1));
  }
}

TEST(CrossingTest, EndsOfTheRange) {
  const auto crossing = [](Algorithm small, Algorithm large, int64_t from, int64_t to) {
    return CrossingBytes(8, small, large, kLoopback, from, to);
  };
  EXPECT_EQ(crossing(Algorithm::kStar, Algorithm::kRing, 16 * kMiB, 64 * kMiB), 16 * kMiB);
  EXPECT_EQ(crossing(Algorithm::kRecursiveDoubling, Algorithm::kRing, 0, 64), std::nullopt);
  EXPECT_EQ(crossing(Algorithm::kRecursiveDoubling, Algorithm::kRing, 64, 4), std::nullopt);
  EXPECT_EQ(crossing(Algorithm::kPsExchange, Algorithm::kRing, 0, kMiB), std::nullopt);
  EXPECT_TRUE(crossing(Algorithm::kRecursiveDoubling, Algorithm::kRing, 0, 64 * kMiB).has_value());
}

// THEORY C.1 and C.7: with chunks for nothing the ring wins only above S*beta/alpha = 32 (n = 8)
// and 176 (n = 16). A real double tree pays for its first chunks and waits for slots, so the ring
// wins earlier; still the later, the more ranks there are.
TEST(CrossingTest, TheCostOfChunksBringsTheRingsWinForward) {
  const CostModel cost{.latency_ns = 10'000, .beta_ns_per_byte = 0.1};
  double before = 0;
  struct Row {
    int32_t n;
    double theory;
  };
  for (const Row& row : {Row{8, 32}, Row{16, 176}, Row{64, 3'648}}) {
    const auto bytes = CrossingBytes(row.n, Algorithm::kDoubleTree, Algorithm::kRing, cost, 1,
                                     int64_t{1} << 40, /*tile_bytes=*/int64_t{1} << 40);
    ASSERT_TRUE(bytes.has_value()) << row.n;
    const double ratio = static_cast<double>(*bytes) * 0.1 / 10'000;
    EXPECT_LT(ratio, row.theory) << row.n;
    EXPECT_GT(ratio, before) << row.n;
    before = ratio;
  }
}

}  // namespace
}  // namespace lockstep
