// Lost servers and workers of a parameter-server cluster, on real processes: within what a policy
// survives the run ends, and a synchronous one ends with the bits of the undisturbed run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/core/crash_point.h"
#include "tests/system/fault_run.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr char kChain[] = "servers: 3 policy: CHAIN replicas: 1";
constexpr char kSnapshot[] = "servers: 2 policy: SNAPSHOT snapshot_every: 4";

// The final hash of the same servers without faults.
const std::string& UndisturbedHash(const std::string& ps, int steps) {
  static std::map<std::string, std::string> hashes;
  std::string& hash = hashes[absl::StrCat(ps, steps)];
  if (hash.empty()) {
    const FaultRun run({.ps = ps, .steps = steps});
    EXPECT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
    hash = run.FinalHash(0);
    EXPECT_FALSE(hash.empty());
  }
  return hash;
}

struct LossCase {
  std::string name;
  std::string ps;
  std::string fault;
  int steps = 20;
};
class SyncLossTest : public testing::TestWithParam<LossCase> {};

TEST_P(SyncLossTest, EndsWithTheUndisturbedRunsBits) {
  const LossCase& test = GetParam();
  const FaultRun run({.ps = test.ps, .steps = test.steps, .faults = {test.fault}});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  EXPECT_THAT(run.result().err, HasSubstr("is lost ("));
  for (int index = 0; index < 3; ++index) {
    EXPECT_EQ(run.FinalHash(index), UndisturbedHash(test.ps, test.steps)) << "worker " << index;
  }
  ASSERT_EQ(run.run().runs_size(), 1);
  EXPECT_TRUE(run.run().runs(0).complete());
  EXPECT_EQ(run.run().runs(0).replicas().state(), "identical");
  EXPECT_GE(run.run().runs(0).recovery().losses(), 1);
}

std::vector<LossCase> LossCases() {
  const std::string server = "target: \"server:1\" at { step: 10 } kind: ";
  std::vector<LossCase> cases = {
      {"ChainKill", kChain, server + "KILL"},
      {"ChainRestart", kChain, server + "RESTART"},
      {"ChainOfTwoReplicas", "servers: 3 policy: CHAIN replicas: 2", server + "KILL"},
      {"ChainNotAggregated", absl::StrCat(kChain, " aggregated: false"), server + "KILL"},
      {"ChainFrozen", kChain, server + "FREEZE for: \"20s\""},
      {"SnapshotKill", kSnapshot, server + "KILL"},
      {"WorkerReplaced", "servers: 2 on_worker_loss: REPLACE",
       "target: \"worker:1\" at { step: 10 } kind: KILL"},
      {"WorkerReplacedInItsExchange", "servers: 2 on_worker_loss: REPLACE",
       "target: \"worker:1\" at { step: 10 } kind: KILL after_bucket: 1"},
      {"WorkerOfAChainReplaced", absl::StrCat(kChain, " on_worker_loss: REPLACE"),
       "target: \"worker:2\" at { step: 10 } kind: KILL"},
  };
  for (const CrashPointName& row : kCrashPoints) {
    const bool snapshot =
        row.point == CrashPoint::kDuringSnapshot || row.point == CrashPoint::kSnapshotNotNamed;
    // These two are reached only by a server that lives through another's loss.
    if (row.point == CrashPoint::kDuringStateTransfer || row.point == CrashPoint::kRestoring) {
      continue;
    }
    cases.push_back({absl::StrCat("At_", std::string(row.name)), snapshot ? kSnapshot : kChain,
                     absl::StrCat("target: \"server:1\" at { step: 8 } kind: CRASH_POINT point: \"",
                                  std::string(row.name), "\""),
                     // A snapshot is written beside training, which must not be over by then.
                     snapshot ? 200 : 20});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Servers, SyncLossTest, testing::ValuesIn(LossCases()),
                         [](const auto& test) { return test.param.name; });

// Every worker's push of every step is applied once to every shard, also across a failover.
TEST(AsyncLossTest, EveryUpdateIsAppliedOnce) {
  for (const std::string policy : {kChain, kSnapshot}) {
    const FaultRun run({.ps = "mode: ASYNC " + policy,
                        .faults = {"target: \"server:1\" at { step: 10 } kind: KILL"}});
    ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
    const VariantResult& result = run.run().runs(0);
    EXPECT_TRUE(result.complete());
    EXPECT_EQ(result.staleness().applied(), result.staleness().expected_applied());
  }
}

TEST(AsyncLossTest, TheOthersGoOnWithoutAWorker) {
  const FaultRun run({.ps = "mode: ASYNC servers: 2 on_worker_loss: SHRINK",
                      .faults = {"target: \"worker:1\" at { step: 10 } kind: KILL"}});
  EXPECT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  EXPECT_FALSE(run.FinalHash(0).empty());
  EXPECT_FALSE(run.FinalHash(2).empty());
  EXPECT_TRUE(run.FinalHash(1).empty());
}

TEST(BeyondPolicyTest, StopsNamingTheShard) {
  const FaultRun run({.ps = kChain,
                      .faults = {"target: \"server:1\" at { step: 10 } kind: KILL",
                                 "target: \"server:2\" at { step: 10 } kind: KILL"}});
  EXPECT_EQ(run.result().exit_code, 3);
  EXPECT_THAT(run.result().out, HasSubstr("shard 1 is lost"));
}

TEST(NoPolicyTest, ALostServerEndsTheRun) {
  const FaultRun run(
      {.ps = "servers: 2", .faults = {"target: \"server:1\" at { step: 10 } kind: KILL"}});
  EXPECT_EQ(run.result().exit_code, 3);
  EXPECT_THAT(run.result().out, HasSubstr("server 1 was lost"));
}

}  // namespace
}  // namespace lockstep
