#include "base/member/group_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

Command StartOf(int64_t epoch, Ps::Policy policy, bool restore = false) {
  Command command;
  command.mutable_start()->set_epoch(epoch);
  command.mutable_start()->set_restore(restore);
  command.mutable_start()->mutable_run()->mutable_variant()->mutable_ps()->set_policy(policy);
  return command;
}
Command Go() {
  Command command;
  command.mutable_go();
  return command;
}

TEST(GroupStateTest, AMemberMaySeeItselfThatItsGroupIsDead) {
  GroupState group("here");
  group.Take(StartOf(1, Ps::CHAIN));
  group.Take(Go());
  const absl::Status broken = absl::UnavailableError("server 2 closed its stream");
  EXPECT_FALSE(group.GiveUp(2, broken)) << "another epoch's";
  EXPECT_THAT(group.dead(), IsOk());
  EXPECT_TRUE(group.GiveUp(1, broken));
  EXPECT_FALSE(group.GiveUp(1, absl::UnavailableError("again"))) << "it is known";
  EXPECT_EQ(group.dead(), broken);
  group.Break();
  group.Take(StartOf(2, Ps::CHAIN));
  EXPECT_FALSE(group.GiveUp(1, broken)) << "a late word of the old group's streams";
  EXPECT_THAT(group.dead(), IsOk());
}

TEST(GroupStateTest, DataLossEndsAGroupOnlyWhileItIsRestored) {
  const absl::Status damaged = absl::DataLossError("the snapshot is truncated");
  GroupState group("here");
  group.Take(StartOf(1, Ps::SNAPSHOT));
  group.Take(Go());
  EXPECT_FALSE(group.MayRebuild(damaged)) << "a gradient that is not finite ends the run";
  group.Break();
  group.Take(StartOf(2, Ps::SNAPSHOT, /*restore=*/true));
  EXPECT_TRUE(group.MayRebuild(damaged));
  group.Take(Go());
  EXPECT_FALSE(group.MayRebuild(damaged));
}

TEST(GroupStateTest, TheVariantSaysWhatFollowsALoss) {
  RunConfig run;
  EXPECT_FALSE(LossRuleOf(run).rebuilds());
  run.mutable_variant()->mutable_ps();
  EXPECT_FALSE(LossRuleOf(run).rebuilds());
  run.mutable_variant()->mutable_ps()->set_on_worker_loss(Ps::SHRINK);
  EXPECT_EQ(LossRuleOf(run).worker, WorkerLoss::kShrink);
  EXPECT_EQ(LossRuleOf(run).server, Ps::NONE);
  run.mutable_variant()->mutable_ps()->set_policy(Ps::SNAPSHOT);
  EXPECT_EQ(LossRuleOf(run).server, Ps::SNAPSHOT);
  run.mutable_variant()->mutable_all_reduce()->set_on_loss(AllReduceSync::REPLACE);
  EXPECT_EQ(LossRuleOf(run).worker, WorkerLoss::kReplace);
  EXPECT_EQ(LossRuleOf(run).server, Ps::NONE);
}

}  // namespace
}  // namespace lockstep
