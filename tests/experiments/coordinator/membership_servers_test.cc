// What the coordinator does after the loss of a parameter server, step by step; whole runs from
// seeds: ps_rebuild_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/experiments/coordinator/ps_run.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(MembershipServersTest, TheFirstStartNamesTheChains) {
  EXPECT_THAT(PsRun(2, 3, WithReplicas(1)).Chains(), ElementsAre("0>1", "1>2", "2>0"));
  EXPECT_THAT(PsRun(2, 3, WithReplicas(2)).Chains(), ElementsAre("0>1>2", "1>2>0", "2>0>1"));
  const PsRun run(2, 2, Snapshot());
  EXPECT_THAT(run.Chains(), ElementsAre("0", "1"));
  EXPECT_FALSE(run.start().restore());
  EXPECT_EQ(run.start().member(3).incarnation(), 1);
}

TEST(MembershipServersTest, ALostHeadsShardGoesOnAtItsReplicaWithTheReplacementBehindIt) {
  PsRun run(2, 3, WithReplicas(1));
  run.Finish(0, 31);
  run.Finish(1, 31);
  run.Kill({SERVER, 1});
  EXPECT_EQ(run.spawns({SERVER, 1}), 1);
  run.LeaveAll(31);
  EXPECT_EQ(run.start().epoch(), 1) << "the replacement is given settle_ms";
  run.Live(50);
  run.Join({SERVER, 1});
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_THAT(run.Chains(), ElementsAre("0+1", "2+1", "2>0"));
  EXPECT_EQ(run.start().member(3).incarnation(), 2);
  EXPECT_EQ(run.start().member(3).endpoint(), "");
  EXPECT_EQ(run.start().member(2).endpoint(), "127.0.0.1:9");
  run.ConnectAll();
  run.Live(50);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("server 1 is lost (was killed by SIGKILL); shard 1 goes on at server 2 "
                          "with all 31 updates, server 1 copies shards 0 and 1, in 0.05 s"));
  run.CatchUp(0, 0, 1);
  EXPECT_THAT(run.TakeLines(), IsEmpty());
  run.CatchUp(2, 1, 1);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("every shard has all its copies again, after 0.10 s; 2000 bytes "
                          "copied"));
}

TEST(MembershipServersTest, WithoutAReplacementTheOthersGoOnAndItBeginsOneMoreEpoch) {
  PsRun run(2, 3, WithReplicas(1));
  run.Kill({SERVER, 1});
  run.LeaveAll(31);
  run.Live(300);
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_THAT(run.Chains(), ElementsAre("0", "2", "2>0"));
  EXPECT_EQ(run.start().member_size(), 4);
  run.ConnectAll();
  run.Live(50);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("server 1 is lost (was killed by SIGKILL); shard 1 goes on at server 2 "
                          "with all 31 updates, in 0.30 s"));
  run.Join({SERVER, 1});
  EXPECT_EQ(run.start().epoch(), 2);
  for (const MemberId& id : std::vector<MemberId>{{WORKER, 0}, {WORKER, 1}, {SERVER, 0}}) {
    run.Leave(id, 33);
  }
  EXPECT_EQ(run.start().epoch(), 2);
  run.Leave({SERVER, 2}, 33);
  ASSERT_EQ(run.start().epoch(), 3);
  EXPECT_THAT(run.Chains(), ElementsAre("0+1", "2+1", "2>0"));
  run.ConnectAll();
  run.Live(50);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("server 1 joins; server 1 copies shards 0 and 1, in 0.00 s"));
  EXPECT_TRUE(run.membership().running());
}

// Until it has caught up the shard has one copy less.
TEST(MembershipServersTest, ALossWhileTheOnlyOtherCopyCatchesUpStopsTheRunAndSaysWhatIsLost) {
  PsRun run(2, 3, WithReplicas(1));
  run.Finish(0, 140);
  run.Finish(1, 141);
  run.Kill({SERVER, 1});
  run.Join({SERVER, 1});
  run.LeaveAll(140);
  run.ConnectAll();
  run.CatchUp(0, 0, 1);  // shard 1 is not there yet
  run.Kill({SERVER, 2});
  run.LeaveAll(140);
  run.Live(400);
  EXPECT_THAT(run.membership().outcome(),
              StatusIs(StatusCode::kUnavailable,
                       "server 2, step 141: was killed by SIGKILL; not rebuilt: shard 1 is lost: "
                       "server 2 held it; last durable step 140"));
}

TEST(MembershipServersTest, BothCopiesLostAtOnceStopTheRunAndSayWhatIsLost) {
  PsRun run(2, 4, WithReplicas(1));
  run.Finish(0, 140);
  run.Finish(1, 140);
  run.Kill({SERVER, 2});
  run.Kill({SERVER, 1});
  run.LeaveAll(140);
  run.Live(400);
  EXPECT_THAT(run.membership().outcome(),
              StatusIs(StatusCode::kUnavailable,
                       "not rebuilt: shard 1 is lost: servers 1 and 2 held it; last durable step "
                       "140"));
}

// All that was known was what members had said when they left. The end of another process, when
// the run was given up already, was taken for the cause.
TEST(MembershipServersTest, WhoDiesWhenTheRunIsGivenUpIsNotTheCause) {
  PsRun run(2, 3, WithReplicas(1));
  for (int group = 0; group < 9; ++group) {
    run.LeaveAll(140);
    run.ConnectAll();
  }
  run.Kill({WORKER, 1});
  run.Live(400);
  EXPECT_THAT(
      run.membership().outcome(),
      StatusIs(StatusCode::kUnavailable, "gone; not rebuilt: step 141 broke 8 groups in a row"));
}

// The end of one replacement too many was taken for the end of the one that had joined.
TEST(MembershipServersTest, WhoWasRefusedMayEnd) {
  PsRun run(2, 3, WithReplicas(1));
  run.Kill({SERVER, 1});
  run.LeaveAll(31);
  run.Join({SERVER, 1});
  run.ConnectAll();
  ASSERT_EQ(run.start().epoch(), 2);
  run.Exit({SERVER, 1}, 99);
  run.Live(100);
  EXPECT_TRUE(run.membership().running());
  EXPECT_EQ(run.start().epoch(), 2);
  EXPECT_EQ(run.spawns({SERVER, 1}), 1);
  EXPECT_TRUE(run.membership().Spares({SERVER, 1}, 99)) << "nor is the run's end to be blamed";
  EXPECT_FALSE(run.membership().Spares({SERVER, 1}, run.session({SERVER, 1})));
}

// Its network was slow, and its end was known before it had joined: it joined all the same, was
// lost once more, and used up the replacements.
TEST(MembershipServersTest, WhoHasEndedDoesNotJoin) {
  PsRun run(2, 3, WithReplicas(1));
  run.Kill({SERVER, 1});
  const int64_t late = run.session({SERVER, 2}) + 1;  // the process that joins next
  run.Exit({SERVER, 1}, late);
  EXPECT_EQ(run.spawns({SERVER, 1}), 2);
  run.Join({SERVER, 1});
  EXPECT_THAT(run.TakeLines(), ElementsAre("refused server 1: its process has ended"));
  run.Join({SERVER, 1});
  run.LeaveAll(31);
  run.ConnectAll();
  EXPECT_EQ(run.start().epoch(), 2);
  EXPECT_EQ(run.start().member_size(), 5);
  EXPECT_EQ(run.spawns({SERVER, 1}), 2);
}

TEST(MembershipServersTest, ACaughtUpCopySurvivesTheOthers) {
  PsRun run(1, 3, WithReplicas(1));
  for (const int server : {0, 1, 2, 0, 1, 2}) {  // a rolling restart, twice
    SCOPED_TRACE(server);
    run.Kill({SERVER, server});
    run.Join({SERVER, server});
    run.LeaveAll(10);
    run.ConnectAll();
    ASSERT_TRUE(run.membership().running());
    const Start start = run.start();
    for (const ShardChain& chain : start.chain()) {
      for (const int joining : chain.joining())
        run.CatchUp(chain.server(0), chain.shard(), joining);
    }
    run.Finish(0, run.start().epoch());
  }
  EXPECT_EQ(run.start().epoch(), 7);
}

TEST(MembershipServersTest, AnotherEpochsCatchingUpIsNotHeard) {
  PsRun run(1, 2, WithReplicas(1));
  run.Kill({SERVER, 1});
  run.Join({SERVER, 1});
  run.LeaveAll(10);
  run.ConnectAll();
  MemberEvent event;
  event.mutable_caught_up()->set_epoch(1);
  event.mutable_caught_up()->set_server(1);
  run.Say({SERVER, 0}, event);
  run.Kill({SERVER, 0});
  run.LeaveAll(10);
  run.Live(400);
  EXPECT_THAT(run.membership().outcome(), StatusIs(StatusCode::kUnavailable,
                                                   "shards 0 and 1 are "
                                                   "lost: server 0 held "
                                                   "them"));
}

TEST(MembershipServersTest, SnapshotGoesBackToTheNewestCutThatEveryShardSaved) {
  PsRun run(2, 2, Snapshot());
  for (const int64_t step : {0, 10, 20, 30}) run.Save(0, step);
  for (const int64_t step : {0, 10, 20}) run.Save(1, step);
  run.Finish(0, 31);
  run.Finish(1, 31);
  EXPECT_THAT(run.manifest(), HasSubstr("saved { shard: 1 version: 20 step: 20 }"));
  run.Kill({SERVER, 1});
  run.LeaveAll(31);
  run.Live(500);
  EXPECT_EQ(run.start().epoch(), 1) << "nobody else has shard 1";
  run.Join({SERVER, 1});
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_TRUE(run.start().restore());
  EXPECT_EQ(run.start().step(), 20);
  EXPECT_THAT(run.Chains(), ElementsAre("0", "1"));
  run.Save(0, 30);  // what it was writing when the group broke
  run.Save(1, 30);
  EXPECT_THAT(run.manifest(), Not(HasSubstr("step: 30"))) << "the steps are made again";
  run.ConnectAll();
  EXPECT_EQ(run.membership().step(), 20);
  run.Live(50);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("server 1 is lost (was killed by SIGKILL); every shard goes back to its "
                          "snapshot of step 20, in 0.50 s"));
  // A worker's loss afterwards costs the servers nothing: but here it fails the run.
  run.Save(0, 30);
  run.Save(1, 30);
  EXPECT_THAT(run.manifest(), HasSubstr("step: 30"));
}

TEST(MembershipServersTest, ASnapshotThatCantBeRestoredMakesWayForTheOneBefore) {
  PsRun run(1, 2, Snapshot());
  for (const int64_t step : {0, 10}) {
    run.Save(0, step);
    run.Save(1, step);
  }
  run.Kill({SERVER, 0});
  run.Join({SERVER, 0});
  run.LeaveAll(12);
  ASSERT_EQ(run.start().step(), 10);
  run.Leave({SERVER, 0}, 0, StatusCode::kDataLoss);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("the snapshot of step 10 can't be restored: server 0 says: gone"));
  run.LeaveAll(10);
  ASSERT_EQ(run.start().epoch(), 3);
  EXPECT_TRUE(run.start().restore());
  EXPECT_EQ(run.start().step(), 0);
  EXPECT_THAT(run.manifest(), Not(HasSubstr("step: 10")));
  run.Leave({SERVER, 1}, 0, StatusCode::kDataLoss);
  run.LeaveAll(0);
  run.Live(400);
  EXPECT_THAT(run.membership().outcome(),
              StatusIs(StatusCode::kUnavailable, "no snapshot is left that can be restored"));
}

TEST(MembershipServersTest, BeforeTheFirstSnapshotALostServerIsALostShard) {
  PsRun run(1, 2, Snapshot());
  run.Save(0, 0);
  run.Kill({SERVER, 1});
  run.LeaveAll(3);
  run.Live(400);
  EXPECT_THAT(run.membership().outcome(),
              StatusIs(StatusCode::kUnavailable,
                       "shard 1 is lost: server 1 held it; nothing was saved yet"));
}

TEST(MembershipServersTest, WithoutAPolicyALostServerFailsTheRunAsEver) {
  for (const Ps::OnWorkerLoss on_loss : {Ps::STOP, Ps::REPLACE}) {
    PsRun run(2, 1, Workers(on_loss));
    run.Leave({WORKER, 0}, 5);  // it noticed first
    run.Kill({SERVER, 0});
    run.Live(400);
    EXPECT_THAT(run.membership().outcome(),
                StatusIs(StatusCode::kUnavailable, "server 0, step 1: was killed by SIGKILL"));
    EXPECT_EQ(run.spawns({SERVER, 0}), 0);
  }
}

TEST(MembershipServersTest, AServersPolicyDoesNotReplaceWorkers) {
  PsRun run(2, 2, WithReplicas(1));
  run.Leave({SERVER, 1}, 5);
  run.Kill({WORKER, 0});
  run.Live(400);
  EXPECT_THAT(run.membership().outcome(),
              StatusIs(StatusCode::kUnavailable, "worker 0, step 1: was killed by SIGKILL"));
}

// A server whose start always fails is not started for ever, and one that is not needed does not
// end the run.
TEST(MembershipServersTest, ReplacementsAreBounded) {
  PsRun run(1, 3, WithReplicas(1));
  run.Kill({SERVER, 1});
  run.LeaveAll(3);
  for (int i = 0; i < 5; ++i) {
    run.Exit({SERVER, 1}, 1'000 + i);
  }
  run.Live(400);
  run.ConnectAll();
  EXPECT_TRUE(run.membership().running());
  EXPECT_EQ(run.start().epoch(), 2);
  EXPECT_TRUE(run.membership().Spares({SERVER, 1}, 1'000));
  EXPECT_FALSE(run.membership().Spares({SERVER, 2}, 4));

  PsRun needed(1, 2, Snapshot());
  needed.Save(0, 0);
  needed.Save(1, 0);
  needed.Kill({SERVER, 1});
  needed.LeaveAll(3);
  for (int i = 0; i < 3; ++i) {
    needed.Exit({SERVER, 1}, 1'000 + i);
  }
  needed.Live(400);
  EXPECT_THAT(needed.membership().outcome(),
              StatusIs(StatusCode::kUnavailable,
                       "every replacement of server 1 was lost before its group stood, the last "
                       "one: exited with code 4"));
}

TEST(MembershipServersTest, AFencedServerIsNeverHeard) {
  Cluster cluster(1, 2, WithReplicas(1));
  cluster.StartAll(2);
  const int64_t fenced = cluster.Session(SERVER, 1);
  const auto lost = cluster.membership().OnClosed(fenced, cluster.now());
  EXPECT_EQ(Count(lost, Command::kStop), 1) << "it may wake up";
  MemberEvent event;
  event.mutable_caught_up()->set_epoch(1);
  const auto answer = cluster.membership().OnEvent(fenced, event, cluster.now());
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].kind, Effect::Kind::kClose);
}

// It loses nothing: the next epoch has the same chains.
TEST(MembershipServersTest, AReportThatTheGroupIsDeadRebuildsItWithEverybody) {
  PsRun run(2, 3, WithReplicas(1));
  run.Leave({SERVER, 2}, 12, StatusCode::kDeadlineExceeded);
  run.LeaveAll(12);
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_THAT(run.Chains(), ElementsAre("0>1", "1>2", "2>0"));
  run.ConnectAll();
  run.Live(50);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("the group broke, server 2 says: gone; training goes on, in 0.00 s"));
}

TEST(MembershipServersTest, AStepThatBreaksEveryGroupEndsTheRun) {
  PsRun run(1, 2, WithReplicas(1));
  for (int i = 0; i < 9; ++i) {
    run.LeaveAll(12);
    run.ConnectAll();
  }
  run.Live(400);
  EXPECT_THAT(run.membership().outcome(),
              StatusIs(StatusCode::kUnavailable, "step 13 broke 8 groups in a row"));
}

}  // namespace
}  // namespace lockstep
