// Members that join and leave as planned, on real processes: no failure, no lost step, and what the
// records say. Every process that goes ends with code 0, or the run fails (membership_planned.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/system/fault_run.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kChain[] = "servers: 3 policy: CHAIN replicas: 1";
constexpr char kRolling[] = "target: \"servers\" at { step: 5 } kind: RESTART";

int CountLeft(const std::vector<Record>& records) {
  int left = 0;
  for (const Record& record : records) left += record.ended().left() ? 1 : 0;
  return left;
}

TEST(PlannedTest, ARollingRestartOfAllServersLosesNoStep) {
  const FaultRun undisturbed({.ps = kChain, .steps = 40});
  const std::string hash = undisturbed.FinalHash(0);
  ASSERT_NE(hash, "");
  for (const std::string more : {"", " replicas: 2", " aggregated: false"}) {
    SCOPED_TRACE(more);
    const FaultRun run(
        {.ps = "servers: 3 policy: CHAIN" + more, .steps = 40, .faults = {kRolling}});
    ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
    for (int server = 0; server < 3; ++server) {
      EXPECT_THAT(run.result().err, HasSubstr(absl::StrCat("server ", server, " restarts")));
      EXPECT_EQ(CountLeft(run.server(server)), 1);
    }
    EXPECT_THAT(run.result().err, testing::Not(HasSubstr("is lost")));
    EXPECT_THAT(run.result().err, testing::Not(HasSubstr("did not happen")));
    for (int index = 0; index < 3; ++index) EXPECT_EQ(run.FinalHash(index), hash);
    const VariantResult& result = run.run().runs(0);
    EXPECT_TRUE(result.complete());
    EXPECT_EQ(result.recovery().losses(), 0);
    EXPECT_EQ(result.recovery().false_failovers(), 0);
    EXPECT_EQ(result.recovery().lost_versions(), 0);
    EXPECT_GE(result.recovery().changes(), 3);
  }
}

TEST(PlannedTest, AnAsynchronousRollingRestartAppliesEveryUpdateOnce) {
  const FaultRun run(
      {.ps = absl::StrCat("mode: ASYNC ", kChain), .steps = 40, .faults = {kRolling}});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  const VariantResult& result = run.run().runs(0);
  EXPECT_TRUE(result.complete());
  EXPECT_EQ(result.recovery().losses(), 0);
  EXPECT_EQ(result.staleness().applied(), result.staleness().expected_applied());
}

// The mean over a step's samples does not depend on how many workers share them.
TEST(PlannedTest, AWorkerLeavesAndComesBack) {
  for (const std::string mode : {"SYNC", "ASYNC"}) {
    SCOPED_TRACE(mode);
    const FaultRun run({.ps = absl::StrCat("mode: ", mode, " servers: 2 on_worker_loss: SHRINK"),
                        .steps = 40,
                        .faults = {"target: \"worker:1\" at { step: 5 } kind: LEAVE",
                                   "target: \"worker:1\" at { step: 12 } kind: JOIN"}});
    ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
    EXPECT_THAT(run.result().err,
                HasSubstr("worker 1 leaves; training goes on with 2 workers, in"));
    EXPECT_THAT(run.result().err, HasSubstr("worker 1 joins; training goes on, in"));
    const std::vector<std::string> injections = run.Injections();
    ASSERT_EQ(injections.size(), 2u);
    EXPECT_EQ(injections[0], "LEAVE of fault 0 at step 5, planned 5");
    EXPECT_THAT(injections[1], HasSubstr("JOIN of fault 1 at step"));
    EXPECT_EQ(CountLeft(run.worker(1)), 1);
    const VariantResult& result = run.run().runs(0);
    EXPECT_TRUE(result.complete());
    EXPECT_EQ(result.recovery().losses(), 0);
    EXPECT_EQ(result.recovery().changes(), 2);
    for (int index = 0; index < 3; ++index) EXPECT_NE(run.FinalHash(index), "");
    if (mode != "SYNC") continue;
    EXPECT_EQ(result.replicas().state(), "identical");
    for (int index = 1; index < 3; ++index) EXPECT_EQ(run.FinalHash(index), run.FinalHash(0));
  }
}

TEST(PlannedTest, AWorkerThatLeavesForGoodIsNoFailure) {
  const FaultRun run({.ps = "servers: 2 on_worker_loss: SHRINK",
                      .faults = {"target: \"worker:2\" at { step: 8 } kind: LEAVE"}});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  EXPECT_EQ(run.run().failures_size(), 0);
  ASSERT_TRUE(run.worker(2).back().has_ended());
  EXPECT_TRUE(run.worker(2).back().ended().left());
  EXPECT_EQ(run.worker(2).back().ended().code(), 0);
  EXPECT_EQ(run.worker(2).back().ended().step(), 7);
  EXPECT_EQ(run.FinalHash(0), run.FinalHash(1));
  EXPECT_NE(run.FinalHash(0), "");
}

TEST(PlannedTest, AWorkerJoinsARunThatBeganWithoutIt) {
  const FaultRun run({.ps = "servers: 2 on_worker_loss: SHRINK",
                      .steps = 40,
                      .faults = {"target: \"worker:2\" at { step: 10 } kind: JOIN"}});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  EXPECT_TRUE(run.run().runs(0).complete());
  EXPECT_NE(run.FinalHash(0), "");
  for (int index = 1; index < 3; ++index) EXPECT_EQ(run.FinalHash(index), run.FinalHash(0));
  ASSERT_EQ(run.Rebuilds(2).size(), 1u);
  EXPECT_GE(run.Rebuilds(2)[0].step(), 9);
  EXPECT_TRUE(run.Rebuilds(2)[0].none_lost());
}

}  // namespace
}  // namespace lockstep
