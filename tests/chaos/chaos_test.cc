// Whole clusters under random plans: every promise is kept, and the same seed is the same run.
#include "experiments/simulate/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/cli/chaos.h"
#include "tests/chaos/tier.h"

namespace lockstep {
namespace {

// Of each of the eight pairs of a mode and a policy: 1,000 or 100,000 plans in all.
constexpr int64_t kSeeds = kLongTier ? 12'500 : kFullTier ? 125 : 7;

std::string Told(const ChaosReport& report) {
  return absl::StrJoin(report.failures, "\n", [](std::string* out, const ChaosFailure& each) {
    absl::StrAppend(out, "seed ", each.seed, ": ", each.what, "\n", ToString(each.shrunk), "\n",
                    absl::StrJoin(each.broken, "\n"));
  });
}

class ModeTest : public testing::TestWithParam<std::tuple<Ps::Mode, Ps::Policy>> {};

TEST_P(ModeTest, EveryPromiseIsKept) {
  const auto [mode, policy] = GetParam();
  const ChaosReport report = RunChaos({.mode = mode, .policy = policy}, 1, kSeeds, 3, nullptr);
  EXPECT_TRUE(report.failures.empty()) << Told(report);
  EXPECT_EQ(report.runs, kSeeds);
  // Not because nothing happened, or because runs end before they could fail.
  EXPECT_GE(report.completed * 10, report.runs * 8);
  EXPECT_GE(report.epochs * 2, report.runs * 3);
}

INSTANTIATE_TEST_SUITE_P(Chaos, ModeTest,
                         testing::Combine(testing::Values(Ps::SYNC, Ps::ASYNC, Ps::BOUNDED,
                                                          Ps::K_OF_N),
                                          testing::Values(Ps::SNAPSHOT, Ps::CHAIN)),
                         [](const auto& row) {
                           return absl::StrCat(Ps::Mode_Name(std::get<0>(row.param)), "_",
                                               Ps::Policy_Name(std::get<1>(row.param)));
                         });

TEST(ChaosTest, ASeedIsOneRun) {
  for (const uint64_t seed : {3U, 11U, 19U}) {
    const ChaosCase drawn = DrawCase({}, seed);
    const ClusterResult a = RunCluster(drawn.cluster, drawn.plan);
    const ClusterResult b = RunCluster(drawn.cluster, drawn.plan);
    EXPECT_EQ(a.events, b.events) << seed;
    EXPECT_EQ(a.sent_bytes, b.sent_bytes) << seed;
    EXPECT_EQ(a.loss, b.loss) << seed;
    EXPECT_EQ(a.lines, b.lines) << seed;
  }
}

TEST(ChaosTest, WithoutAPolicyALossEndsTheRunAndSaysSo) {
  const ChaosReport report = RunChaos({.policy = Ps::NONE}, 1, 20, 3, nullptr);
  EXPECT_TRUE(report.failures.empty()) << Told(report);
  EXPECT_LT(report.completed, report.runs);
}

TEST(ChaosCommandTest, JsonHasWhatTheTextHas) {
  const auto answer =
      RunChaosCommand({.seeds = 3, .mode = "sync", .policy = "chain", .json = true}, nullptr);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->text, testing::HasSubstr("\"schema\": \"lockstep.chaos/1\", \"runs\": 3"));
}

TEST(ChaosCommandTest, AReplayShowsItsPlan) {
  const auto answer = RunChaosCommand({.seed = 4}, nullptr);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->text, testing::StartsWith("seed 4: "));
  EXPECT_THAT(answer->text, testing::HasSubstr("virtual time"));
}

TEST(ChaosCommandTest, UnknownWordsAreRefused) {
  EXPECT_THAT(RunChaosCommand({.mode = "synch"}, nullptr).status().ToString(),
              testing::HasSubstr("expected sync, async, bounded or k_of_n"));
  EXPECT_THAT(RunChaosCommand({.policy = "copy"}, nullptr).status().ToString(),
              testing::HasSubstr("expected none, snapshot or chain"));
}

}  // namespace
}  // namespace lockstep
