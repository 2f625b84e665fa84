// What happens when processes die, freeze or are interrupted in mid-run: named, bounded, nothing
// left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "tests/system/long_run.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

struct KillCase {
  std::string name;
  std::string variant;
  std::string role;
  int index;
  int servers;
};
class KillTest : public testing::TestWithParam<KillCase> {};

TEST_P(KillTest, TheVictimIsNamedFirstAndNobodyIsLeft) {
  const KillCase& test = GetParam();
  LongRun run(test.variant);
  ASSERT_TRUE(run.Trains());
  const std::vector<pid_t> pids = run.Pids(test.servers);
  const std::vector<uint16_t> ports = run.Ports(test.servers);
  ASSERT_EQ(kill(run.Pid(test.role, test.index), SIGKILL), 0);
  const CommandResult result = run.command().Wait(8);
  ASSERT_FALSE(result.timed_out);
  EXPECT_LE(result.elapsed_s, 5.5);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  ExpectGone(pids);
  ExpectFree(ports);
  const std::string victim = test.role + " " + std::to_string(test.index);
  const std::string step = std::to_string(run.LastStep(test.role, test.index) + 1);
  EXPECT_THAT(result.out, testing::StartsWith("Stopped: " + victim + " was lost at step " + step))
      << result.err;
  const RunFile file = run.ReadRun();
  EXPECT_EQ(file.state(), "failed");
  ASSERT_GE(file.failures_size(), 1);
  EXPECT_EQ(file.failures(0).member(), victim);
  EXPECT_THAT(file.failures(0).message(), HasSubstr("SIGKILL"));
  // In step with those who have trained 5 steps; without a barrier a victim may be far behind.
  EXPECT_GE(file.failures(0).step(), test.variant == "ps_async" ? 1 : 5);
}

INSTANTIATE_TEST_SUITE_P(Failure, KillTest,
                         testing::Values(KillCase{"WorkerInRing", "ring", "worker", 2, 0},
                                         KillCase{"WorkerInPs", "ps_sync", "worker", 2, 2},
                                         KillCase{"ServerInPs", "ps_sync", "server", 1, 2},
                                         KillCase{"WorkerInAsync", "ps_async", "worker", 2, 2},
                                         KillCase{"WorkerInTree", "tree", "worker", 1, 0},
                                         KillCase{"ServerInSchedule", "ps_schedule", "server", 1,
                                                  2}),
                         [](const auto& param) { return param.param.name; });

struct SignalCase {
  std::string name;
  std::string variant;
  int servers;
  int signal;
  int exit_code;
};
class InterruptTest : public testing::TestWithParam<SignalCase> {};

// CASES R42, R53: everything is gone within 5 s and the files are valid and marked.
TEST_P(InterruptTest, LeavesAValidRecordMarkedAborted) {
  const SignalCase& test = GetParam();
  LongRun run(test.variant);
  ASSERT_TRUE(run.Trains());
  const std::vector<pid_t> pids = run.Pids(test.servers);
  const std::vector<uint16_t> ports = run.Ports(test.servers);
  run.command().Signal(test.signal);
  const CommandResult result = run.command().Wait(8);
  ASSERT_FALSE(result.timed_out);
  EXPECT_LE(result.elapsed_s, 5);
  EXPECT_EQ(result.exit_code, test.exit_code) << result.err;
  ExpectGone(pids);
  ExpectFree(ports);
  const RunFile file = run.ReadRun();
  EXPECT_EQ(file.state(), "aborted");
  ASSERT_EQ(file.runs_size(), 1);
  EXPECT_FALSE(file.runs(0).complete());
}

INSTANTIATE_TEST_SUITE_P(Failure, InterruptTest,
                         testing::Values(SignalCase{"CtrlCInRing", "ring", 0, SIGINT, 130},
                                         SignalCase{"CtrlCInPs", "ps_sync", 2, SIGINT, 130},
                                         SignalCase{"CtrlCInAsync", "ps_async", 2, SIGINT, 130},
                                         SignalCase{"CtrlCInSchedule", "ps_schedule", 2, SIGINT,
                                                    130},
                                         SignalCase{"TermInRing", "ring", 0, SIGTERM, 143},
                                         SignalCase{"TermInPs", "ps_sync", 2, SIGTERM, 143},
                                         SignalCase{"HangUpInRing", "ring", 0, SIGHUP, 129}),
                         [](const auto& param) { return param.param.name; });

// CASES R42: the normal end, and a worker that fails by itself.
TEST(ShutdownTest, ACompleteRunLeavesNothingBehind) {
  LongRun run("ps_sync", {"--set", "train.steps=3000"});
  ASSERT_TRUE(run.Trains());
  const std::vector<pid_t> pids = run.Pids(2);
  const std::vector<uint16_t> ports = run.Ports(2);
  const CommandResult result = run.command().Wait(60);
  ASSERT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  ExpectGone(pids);
  ExpectFree(ports);
}

TEST(ShutdownTest, AWorkersOwnErrorEndsEverybodyWithin10S) {
  LongRun run("ps_sync");
  ASSERT_TRUE(run.Trains());
  const std::vector<pid_t> pids = run.Pids(2);
  const std::vector<uint16_t> ports = run.Ports(2);
  ASSERT_EQ(kill(run.Pid("worker", 1), SIGTERM), 0);
  const CommandResult result = run.command().Wait(15);
  ASSERT_FALSE(result.timed_out);
  EXPECT_LE(result.elapsed_s, 10);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.out, testing::StartsWith("Stopped: worker 1")) << result.err;
  ExpectGone(pids);
  ExpectFree(ports);
}

class FreezeTest : public testing::TestWithParam<std::string> {};

// CASES R04: the collective's timeout is honoured on either way: a rank that never calls is named.
TEST_P(FreezeTest, ASilentRankEndsTheRunAtTheTimeout) {
  LongRun run(GetParam(), {"--set", "limits.sync_timeout_ms=1000", "--set", "limits.lease_ms=60000",
                           "--set", "limits.stop_grace_ms=500"});
  ASSERT_TRUE(run.Trains());
  const std::vector<pid_t> pids = run.Pids(GetParam() == "ps_sync" ? 2 : 0);
  ASSERT_EQ(kill(run.Pid("worker", 2), SIGSTOP), 0);
  const CommandResult result = run.command().Wait(12);
  ASSERT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_GE(result.elapsed_s, 1 + 0.5);  // sync_timeout_ms, then stop_grace_ms for the frozen one
  EXPECT_LE(result.elapsed_s,
            1 + 3 + 3);  // timeout, R04's three seconds, SIGKILL for the frozen one
  ExpectGone(pids);
  EXPECT_THAT(result.out, testing::StartsWith("Stopped: worker 2 was lost at step")) << result.err;
  EXPECT_THAT(run.ReadRun().failures(0).message(),
              testing::ContainsRegex("(failed after|waited) [1-9][0-9][0-9][0-9] ms"));
}

INSTANTIATE_TEST_SUITE_P(Failure, FreezeTest, testing::Values("ring", "ps_sync"),
                         [](const auto& param) { return param.param; });

// The coordinator dies: members stop within their lease, the kernel's parent-death signal aside.
TEST(FailureTest, MembersDoNotOutliveTheLauncher) {
  LongRun run("ring");
  ASSERT_TRUE(run.Trains());
  const std::vector<pid_t> pids = run.Pids(0);
  kill(run.command().pid(), SIGKILL);
  run.command().Wait(5);
  EXPECT_TRUE(Eventually([&] { return std::none_of(pids.begin(), pids.end(), Alive); }, 5));
}

}  // namespace
}  // namespace lockstep
