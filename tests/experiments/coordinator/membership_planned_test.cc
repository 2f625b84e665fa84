// What the coordinator does when members join and leave as planned, step by step; on real
// processes: tests/system/planned_test.cc.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "tests/experiments/coordinator/ps_run.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Experiment Planned(const std::string& faults) {
  Experiment experiment;
  CHECK(google::protobuf::TextFormat::ParseFromString(faults, &experiment));
  return experiment;
}

constexpr char kComesAndGoes[] =
    "fault { at { step: 5 } target: \"worker:1\" kind: LEAVE }"
    "fault { at { step: 9 } target: \"worker:1\" kind: JOIN }";
constexpr char kRolling[] = "fault { at { step: 5 } target: \"servers\" kind: RESTART }";

TEST(MembershipPlannedTest, AWorkerLeavesAndIsStartedAgainWhenTheOthersAreThere) {
  PsRun run(3, 1, Workers(Ps::SHRINK), Planned(kComesAndGoes));
  const int64_t session = run.session({WORKER, 1});
  run.Depart(1, 4);
  EXPECT_THAT(run.released(), ElementsAre(session));
  EXPECT_EQ(run.spawns({WORKER, 1}), 0);
  run.LeaveAll(4);
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_TRUE(run.start().none_lost());
  EXPECT_EQ(run.start().member_size(), 3);
  run.ConnectAll();
  run.Finish(0, 8);
  run.Finish(2, 7);
  run.Live(100);
  EXPECT_THAT(run.TakeLines(),
              ElementsAre("worker 1 leaves; training goes on with 2 workers, in 0.00 s"));
  EXPECT_EQ(run.spawns({WORKER, 1}), 0) << "worker 2 has not finished step 8";
  run.Finish(2, 8);
  run.Live(100);
  EXPECT_EQ(run.spawns({WORKER, 1}), 1);
  run.Join({WORKER, 1});
  for (const MemberId& id : std::vector<MemberId>{{WORKER, 0}, {WORKER, 2}, {SERVER, 0}}) {
    run.Leave(id, 9);
  }
  ASSERT_EQ(run.start().epoch(), 3);
  EXPECT_TRUE(run.start().none_lost());
  EXPECT_EQ(run.start().member_size(), 4);
  EXPECT_EQ(run.start().member(1).incarnation(), 2);
  run.ConnectAll();
  run.Live(50);
  EXPECT_THAT(run.TakeLines(), ElementsAre(HasSubstr("worker 1 joins; training goes on, in")));
  EXPECT_TRUE(run.membership().running());
  EXPECT_TRUE(run.membership().failures().empty());
}

TEST(MembershipPlannedTest, ARunBeginsWithoutWhoJoinsLaterAndEndsNotBefore) {
  PsRun run(3, 1, Workers(Ps::SHRINK, Ps::ASYNC),
            Planned("fault { at { step: 9 } target: \"worker:2\" kind: JOIN }"));
  ASSERT_TRUE(run.membership().running());
  EXPECT_EQ(run.start().member_size(), 3);
  EXPECT_FALSE(run.start().none_lost());
  MemberEvent done;  // both are quicker than the next tick
  done.mutable_done()->set_step(20);
  run.Say({WORKER, 0}, done);
  run.Say({WORKER, 1}, done);
  EXPECT_FALSE(run.membership().stopping());
  EXPECT_EQ(run.spawns({WORKER, 2}), 1);
}

TEST(MembershipPlannedTest, ALossBesideADepartureIsALoss) {
  PsRun run(3, 1, Workers(Ps::SHRINK), Planned(kComesAndGoes));
  run.Depart(1, 4);
  run.Kill({WORKER, 2});
  run.LeaveAll(4);
  ASSERT_EQ(run.start().epoch(), 2);
  EXPECT_FALSE(run.start().none_lost());
}

TEST(MembershipPlannedTest, OneThatLeftAndThenFailsIsAFailure) {
  PsRun run(3, 1, Workers(Ps::SHRINK), Planned(kComesAndGoes));
  MemberEvent leaving;
  leaving.mutable_departing()->set_step(4);
  run.Say({WORKER, 1}, leaving);
  run.Gone({WORKER, 1}, /*clean=*/false);
  run.Live(500);
  EXPECT_THAT(run.membership().outcome(),
              StatusIs(absl::StatusCode::kInternal, "though it had left as planned"));
}

TEST(MembershipPlannedTest, EveryServerIsRestartedOnceTheCopiesOfTheLastAreThere) {
  PsRun run(1, 3, WithReplicas(1), Planned(kRolling));
  run.Finish(0, 3);
  run.Live(100);
  EXPECT_EQ(run.spawns({SERVER, 0}), 0) << "step 4 is not finished";
  run.Finish(0, 4);
  for (int server = 0; server < 3; ++server) {
    SCOPED_TRACE(server);
    const int64_t session = run.session({SERVER, server});
    run.Live(100);
    ASSERT_TRUE(run.released().contains(session));
    EXPECT_EQ(run.spawns({SERVER, server}), 1);
    run.Gone({SERVER, server});
    run.Join({SERVER, server});
    run.LeaveAll(10);
    run.ConnectAll();
    ASSERT_TRUE(run.membership().running());
    run.Live(200);
    const int next = (server + 1) % 3;
    EXPECT_EQ(run.spawns({SERVER, next}), next == 0 ? 1 : 0) << "copies are missing";
    const Start start = run.start();
    EXPECT_TRUE(start.none_lost());
    for (const ShardChain& chain : start.chain()) {
      for (const int joining : chain.joining()) {
        run.CatchUp(chain.server(0), chain.shard(), joining);
      }
    }
  }
  run.Live(500);
  EXPECT_EQ(run.spawns({SERVER, 0}), 1);
  EXPECT_EQ(run.start().epoch(), 4);
}

TEST(MembershipPlannedTest, ARunEndsNotBeforeEveryServerIsRestarted) {
  PsRun run(1, 2, WithReplicas(1), Planned(kRolling));
  MemberEvent done;
  done.mutable_done()->set_step(20);
  run.Say({WORKER, 0}, done);
  EXPECT_FALSE(run.membership().stopping());
  EXPECT_EQ(run.spawns({SERVER, 0}), 1);
}

}  // namespace
}  // namespace lockstep
