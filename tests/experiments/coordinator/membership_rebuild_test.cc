// What the coordinator does after a loss, step by step; whole runs from seeds: rebuild_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/experiments/coordinator/cluster.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

MemberEvent BrokenEvent(int64_t epoch, int64_t step) {
  MemberEvent event;
  event.mutable_broken()->set_epoch(epoch);
  event.mutable_broken()->set_step(step);
  event.mutable_broken()->set_code(static_cast<int>(StatusCode::kUnavailable));
  event.mutable_broken()->set_message("lost: rank 2");
  event.mutable_broken()->set_endpoint("127.0.0.1:9");
  return event;
}

const Start* StartIn(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    if (effect.command.has_start()) return &effect.command.start();
  }
  return nullptr;
}

// Everybody is told at once, and the group starts anew when each survivor has said what it holds.
TEST(MembershipTest, TheSurvivorsOfALossGoOnFromTheFurthestState) {
  Cluster cluster(4, 0, AllReduceSync::SHRINK);
  cluster.StartAll(0);
  const auto lost = cluster.membership().OnClosed(cluster.Session(WORKER, 2), cluster.now());
  EXPECT_EQ(Count(lost, Command::kLost), 3);
  EXPECT_EQ(Count(lost, Command::kStop), 1) << "the lost one may wake up";
  EXPECT_EQ(StartIn(cluster.Event(0, BrokenEvent(1, 6))), nullptr);
  EXPECT_EQ(StartIn(cluster.Event(3, BrokenEvent(1, 7))), nullptr);
  const auto effects = cluster.Event(1, BrokenEvent(1, 7));
  ASSERT_EQ(Count(effects, Command::kStart), 3);
  const Start& start = *StartIn(effects);
  EXPECT_EQ(start.epoch(), 2);
  EXPECT_EQ(start.source(), 1) << "the first of those that are furthest";
  EXPECT_EQ(start.step(), 7);
  EXPECT_EQ(start.run().world_size(), 3);
  ASSERT_EQ(start.member_size(), 3);
  EXPECT_EQ(start.member(2).index(), 3);
  EXPECT_EQ(start.member(2).endpoint(), "127.0.0.1:9");
}

TEST(MembershipTest, AReplacementIsAwaitedAndThenJoinsAnew) {
  Cluster cluster(3, 0, AllReduceSync::REPLACE);
  cluster.StartAll(0);
  const auto lost = cluster.membership().OnClosed(cluster.Session(WORKER, 2), cluster.now());
  EXPECT_EQ(std::count_if(lost.begin(), lost.end(),
                          [](const Effect& e) { return e.kind == Effect::Kind::kSpawn; }),
            1);
  cluster.Event(0, BrokenEvent(1, 7));
  EXPECT_EQ(StartIn(cluster.Event(1, BrokenEvent(1, 6))), nullptr);
  const MemberEvent again = Cluster::JoinEvent(WORKER, 2);
  const auto effects = cluster.membership().OnEvent(77, again, cluster.now());
  EXPECT_EQ(Count(effects, Command::kAccepted), 1);
  ASSERT_EQ(Count(effects, Command::kStart), 3);
  EXPECT_EQ(StartIn(effects)->source(), 0);
  // The one that was replaced is not heard any more.
  const auto old = cluster.Event(2, BrokenEvent(1, 9));
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].kind, Effect::Kind::kClose);
}

// Alive, but it never comes out of its group: it would be missing in the next one too.
TEST(MembershipTest, WhoDoesNotLeaveTheDeadGroupIsLostToo) {
  Cluster cluster(3, 0, AllReduceSync::SHRINK);
  cluster.StartAll(0);
  cluster.Event(0, BrokenEvent(1, 7));
  cluster.Event(1, BrokenEvent(1, 7));
  std::vector<Effect> all;
  MemberEvent beat;
  beat.mutable_beat();
  for (int64_t ms = 0; ms < 15'100; ms += 50) {  // half of rebuild_timeout_ms
    for (int rank = 0; rank < 3; ++rank) cluster.Event(rank, beat);
    const auto effects = cluster.Pass(50);
    all.insert(all.end(), effects.begin(), effects.end());
  }
  ASSERT_EQ(Count(all, Command::kStart), 2);
  EXPECT_EQ(StartIn(all)->run().world_size(), 2);
}

TEST(MembershipTest, ARebuildThatDoesNotEndFailsWithTheFirstCause) {
  Cluster cluster(3, 0, AllReduceSync::REPLACE);
  cluster.StartAll(0);
  cluster.membership().OnClosed(cluster.Session(WORKER, 2), cluster.now());
  cluster.Event(0, BrokenEvent(1, 7));
  cluster.Event(1, BrokenEvent(1, 7));
  MemberEvent beat;
  beat.mutable_beat();
  for (int64_t ms = 0; ms < 30'400; ms += 50) {
    for (int rank = 0; rank < 2; ++rank) cluster.Event(rank, beat);
    cluster.Pass(50);
  }
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kUnavailable,
                       "not rebuilt: after 30000 ms (rebuild_timeout_ms 30000) still waiting for "
                       "the replacement of worker 2"));
  EXPECT_THAT(std::string(cluster.membership().outcome().message()),
              testing::StartsWith("worker 2, step 1"));
}

TEST(MembershipTest, AWorkersOwnErrorIsNoLoss) {
  Cluster cluster(3, 0, AllReduceSync::REPLACE);
  cluster.StartAll(0);
  cluster.Event(0, BrokenEvent(1, 6));
  cluster.Report(1, StatusCode::kDataLoss, "step 7: the gradient is not finite", false);
  cluster.Live(300);
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kDataLoss, "worker 1, step 7: the gradient is not finite"));
}

}  // namespace
}  // namespace lockstep
