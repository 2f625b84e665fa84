// What the coordinator does after the loss of a parameter-server run's worker, step by step; whole
// runs from seeds: ps_rebuild_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/experiments/coordinator/ps_run.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::Contains;
using testing::ElementsAre;

TEST(MembershipPsWorkersTest, SyncWaitsForTheReplacementOfAWorker) {
  PsRun run(3, 2, Workers(Ps::REPLACE));
  run.Finish(0, 7);
  run.Kill({WORKER, 1});
  run.LeaveAll(7);
  run.Live(2'000);
  EXPECT_EQ(run.start().epoch(), 1);
  run.Join({WORKER, 1});
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_FALSE(run.start().restore());
  EXPECT_EQ(run.start().run().world_size(), 3);
  EXPECT_EQ(run.start().member(1).incarnation(), 2);
  run.ConnectAll();
  run.Live(50);
  EXPECT_THAT(run.TakeLines(), ElementsAre("worker 1 is lost (was killed by SIGKILL); training "
                                           "goes on, in 2.00 s"));
}

TEST(MembershipPsWorkersTest, ShrinkGoesOnAtOnceAndKeepsTheDeclaredWorldSize) {
  PsRun run(3, 1, Workers(Ps::SHRINK));
  run.Kill({WORKER, 1});
  run.LeaveAll(7);
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_EQ(run.start().run().world_size(), 3);
  EXPECT_EQ(run.start().member_size(), 3);
  EXPECT_EQ(run.start().member(1).index(), 2);
  EXPECT_EQ(run.spawns({WORKER, 1}), 0);
  run.ConnectAll();
  run.Live(50);
  EXPECT_THAT(run.TakeLines(), ElementsAre("worker 1 is lost (was killed by SIGKILL); training "
                                           "goes on with 2 workers, in 0.00 s"));
  // Somebody starts it again by hand.
  run.Join({WORKER, 1});
  run.Live(50);
  for (const MemberId& id : std::vector<MemberId>{{WORKER, 0}, {WORKER, 2}, {SERVER, 0}}) {
    run.Leave(id, 9);
  }
  EXPECT_EQ(run.start().epoch(), 3);
  EXPECT_EQ(run.start().member_size(), 4);
}

TEST(MembershipPsWorkersTest, AsyncGoesOnWithoutTheWorkerAndDoesNotEndWithoutItsReplacement) {
  for (const Ps::Mode mode : {Ps::ASYNC, Ps::BOUNDED}) {
    PsRun run(2, 1, Workers(Ps::REPLACE, mode));
    run.Kill({WORKER, 1});
    run.LeaveAll(7);
    run.Live(350);
    ASSERT_EQ(run.start().epoch(), 2);
    run.ConnectAll();
    MemberEvent done;
    done.mutable_done()->set_step(10);
    run.Say({WORKER, 0}, done);
    EXPECT_FALSE(run.membership().stopping()) << "worker 1 has steps of its own to make";
    run.Join({WORKER, 1});
    run.Leave({WORKER, 0}, 10);
    run.Leave({SERVER, 0}, 10);
    ASSERT_EQ(run.start().epoch(), 3);
    run.ConnectAll();
    run.Say({WORKER, 0}, done);
    EXPECT_FALSE(run.membership().stopping());
    run.Say({WORKER, 1}, done);
    EXPECT_THAT(run.membership().outcome(), IsOk());
  }
}

TEST(MembershipPsWorkersTest, AReplacementThatNeverComesIsNotWaitedForByAsync) {
  PsRun run(2, 1, Workers(Ps::REPLACE, Ps::ASYNC));
  run.Kill({WORKER, 1});
  run.LeaveAll(7);
  run.Live(350);
  run.ConnectAll();
  MemberEvent done;
  done.mutable_done()->set_step(10);
  run.Say({WORKER, 0}, done);
  run.TakeLines();
  run.Live(30'100);
  EXPECT_THAT(run.membership().outcome(), IsOk());
  EXPECT_THAT(run.TakeLines(), Contains("worker 1 is not replaced: nobody joined within 30000 ms "
                                        "(rebuild_timeout_ms)"));
}

}  // namespace
}  // namespace lockstep
