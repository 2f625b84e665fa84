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

// Plans that broke a promise once, shrunk; the seed draws the cluster alone.
struct Once {
  const char* name;
  Ps::Mode mode;
  Ps::Policy policy;
  uint64_t seed;
  Plan plan;
};
void PrintTo(const Once& once, std::ostream* out) { *out << once.name; }
class OnceTest : public testing::TestWithParam<Once> {};

TEST_P(OnceTest, BreaksNoPromiseNow) {
  const Once& once = GetParam();
  const ChaosCase drawn = DrawCase({.mode = once.mode, .policy = once.policy}, once.seed);
  const ClusterResult result = RunCluster(drawn.cluster, once.plan);
  EXPECT_TRUE(result.broken.empty()) << drawn.ToString() << "\n"
                                     << absl::StrJoin(result.broken, "\n");
  EXPECT_GE(result.epochs, 2) << "nothing happened";
}

constexpr TroubleTarget Server(int32_t index) { return {TroubleTarget::Role::kServer, index}; }
constexpr TroubleTarget Worker(int32_t index) { return {TroubleTarget::Role::kWorker, index}; }
constexpr TroubleTarget kCoordinator = {TroubleTarget::Role::kCoordinator, 0};

Disturbance Plain(Trouble trouble, TroubleTarget target, double at_ms, double for_ms,
                  TroubleTarget peer = {}, double amount = 0) {
  return {trouble, target, peer, at_ms, 0, for_ms, amount, {}, 0};
}
Disturbance Crash(int32_t server, CrashPoint point, int64_t step) {
  return {.trouble = Trouble::kCrashPoint, .target = Server(server), .point = point, .step = step};
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, OnceTest,
    testing::Values(
        // Its HELLO to a group that was dead already, before it had heard so, was its own failure.
        Once{"LateHello",
             Ps::K_OF_N,
             Ps::SNAPSHOT,
             501,
             {Crash(2, CrashPoint::kRestoring, 5),
              Plain(Trouble::kPartition, Server(0), 39.049, 571.4, kCoordinator),
              Plain(Trouble::kGray, Server(1), 36.395, 305, {}, 17.95)}},
        Once{"LateHelloToADamagedSnapshot",
             Ps::K_OF_N,
             Ps::SNAPSHOT,
             870,
             {Plain(Trouble::kPartition, Worker(0), 193.69, 411.6, kCoordinator),
              Plain(Trouble::kFlipBit, Server(1), 30, 0, {}, 0.762),
              Plain(Trouble::kFreeze, Worker(0), 65, 76.91)}},
        // The checks took a server's newest process for the one that is in the group.
        Once{"OneReplacementTooMany",
             Ps::K_OF_N,
             Ps::SNAPSHOT,
             588,
             {Plain(Trouble::kPartition, Worker(1), 115, 570, kCoordinator),
              Crash(1, CrashPoint::kAppliedNotReplicated, 7)}},
        // They looked at what a server is now for what it was when it told a worker that froze.
        Once{"AWorkerWakes",
             Ps::K_OF_N,
             Ps::CHAIN,
             1294,
             {Plain(Trouble::kFreeze, Worker(0), 82.588, 420)}},
        Once{"AWorkerWakesAfterARewind",
             Ps::SYNC,
             Ps::SNAPSHOT,
             809,
             {Plain(Trouble::kFreeze, Worker(0), 30, 660),
              Plain(Trouble::kHost, Server(1), 115, 0)}},
        // They took two histories for one: another order of pushes had made the same bits.
        Once{
            "TheSameBits", Ps::ASYNC, Ps::SNAPSHOT, 415, {Crash(1, CrashPoint::kBeforeReceive, 0)}},
        // They missed an update that its head took with it untold, and that nobody made anew.
        Once{"LostUntold",
             Ps::BOUNDED,
             Ps::CHAIN,
             720,
             {Plain(Trouble::kPartition, Worker(1), 105, 295, kCoordinator),
              Plain(Trouble::kGray, Worker(3), 175, 220, {}, 27.35),
              Plain(Trouble::kDelay, Worker(2), 175, 50, Worker(1), 57.66)}},
        // Nor a dropped push, of which the frozen head knew only after it had been replaced.
        Once{"DroppedUntold",
             Ps::K_OF_N,
             Ps::CHAIN,
             8352,
             {Plain(Trouble::kFreeze, Server(1), 140, 365),
              Plain(Trouble::kSlowNode, Worker(1), 15, 20, {}, 3.167)}},
        // A step that was skipped in a later epoch counted as skipped in the frozen head's.
        Once{"SkippedLater",
             Ps::BOUNDED,
             Ps::CHAIN,
             5956,
             {Plain(Trouble::kFreeze, Server(1), 25, 615),
              Plain(Trouble::kHost, Worker(1), 155, 0)}},
        // Joins of replacements that were dead already counted as replacements lost, and the end
        // of one too many as the end of the member.
        Once{"ReplacementsBehindAPartition",
             Ps::ASYNC,
             Ps::SNAPSHOT,
             4066,
             {Plain(Trouble::kPartition, Worker(0), 165, 630, kCoordinator),
              Plain(Trouble::kPartition, Worker(0), 30, 135, kCoordinator),
              {Trouble::kGray, Server(1), {}, 0, 1, 595, 34.6, {}, 0}}}),
    [](const auto& row) { return std::string(row.param.name); });

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
