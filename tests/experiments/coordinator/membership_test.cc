#include "experiments/coordinator/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/member/member.h"
#include "tests/experiments/coordinator/cluster.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(MembershipTest, StartsWhenAllAreHereGoesWhenAllAreConnected) {
  Cluster cluster(2, 1);
  EXPECT_EQ(Count(cluster.Join(WORKER, 1), Command::kAccepted), 1);
  EXPECT_EQ(Count(cluster.Join(SERVER, 0), Command::kStart), 0);
  const std::vector<Effect> last = cluster.Join(WORKER, 0);
  EXPECT_EQ(Count(last, Command::kStart), 3);
  MemberEvent connected;
  connected.mutable_connected();
  cluster.membership().OnEvent(1, connected, 0);
  cluster.membership().OnEvent(2, connected, 0);
  EXPECT_FALSE(cluster.membership().running());
  EXPECT_EQ(Count(cluster.membership().OnEvent(3, connected, 0), Command::kGo), 3);
  EXPECT_TRUE(cluster.membership().running());
}

TEST(MembershipTest, EndsWithOkWhenAllWorkersAreDone) {
  Cluster cluster(2, 1);
  cluster.StartAll(1);
  MemberEvent done;
  done.mutable_done()->set_step(20);
  cluster.Event(0, done);
  EXPECT_FALSE(cluster.membership().stopping());
  EXPECT_EQ(Count(cluster.Event(1, done), Command::kStop), 3);
  EXPECT_THAT(cluster.membership().outcome(), IsOk());
  EXPECT_EQ(cluster.membership().step(), 20);
}

struct RefusalCase {
  std::string name;
  void (*change)(Join*);
  std::string reason;
};
class RefusalTest : public testing::TestWithParam<RefusalCase> {};

TEST_P(RefusalTest, NamesBothSides) {
  Cluster cluster(2, 1);
  cluster.Join(WORKER, 0);
  MemberEvent event = Cluster::JoinEvent(WORKER, 1);
  GetParam().change(event.mutable_join());
  const std::vector<Effect> effects = cluster.membership().OnEvent(9, event, 0);
  ASSERT_EQ(Count(effects, Command::kRefused), 1);
  EXPECT_THAT(effects[0].command.refused().reason(), HasSubstr(GetParam().reason));
  EXPECT_EQ(effects[1].kind, Effect::Kind::kClose);
}

INSTANTIATE_TEST_SUITE_P(
    Membership, RefusalTest,
    testing::Values(
        RefusalCase{"Build", [](Join* join) { join->set_build("other"); },
                    "build 'other', the coordinator has 'test'"},
        RefusalCase{"Protocol", [](Join* join) { join->set_protocol(99); }, "protocol version 99"},
        RefusalCase{"Token", [](Join* join) { join->set_token("guess"); }, "wrong token"},
        RefusalCase{"Surplus", [](Join* join) { join->set_index(2); }, "worker 2 is one too many"},
        RefusalCase{"Twice", [](Join* join) { join->set_index(0); }, "worker 0 has joined already"},
        RefusalCase{"WorldSize", [](Join* join) { join->set_world_size(4); },
                    "its launcher says world size 4, the run says 2"},
        RefusalCase{"Device", [](Join* join) { join->set_device("GPU"); },
                    "it would compute with device GPU, math STRICT, the run says device CPU, math "
                    "STRICT"},
        RefusalCase{"Math", [](Join* join) { join->set_math("TF32"); },
                    "math TF32 conflicts with device CPU"},
        RefusalCase{"NoSuchDevice", [](Join* join) { join->set_device("TPU"); },
                    "device TPU: there are CPU and GPU"}),
    [](const auto& param) { return param.param.name; });

// [device, math]: as the worker was started.
bool JoinsRun(const Experiment& experiment, const std::string& device, const std::string& math) {
  Cluster cluster(2, 1, Ps(), experiment);
  MemberEvent event = Cluster::JoinEvent(WORKER, 1);
  event.mutable_join()->set_device(device);
  event.mutable_join()->set_math(math);
  return Count(cluster.membership().OnEvent(9, event, 0), Command::kAccepted) == 1;
}

TEST(MembershipTest, AWorkerComputesAsTheRunSaysUnlessTheRunLetsItDiffer) {
  Experiment run;
  run.set_device(GPU);
  run.set_math(TF32);
  EXPECT_TRUE(JoinsRun(run, "", ""));
  EXPECT_TRUE(JoinsRun(run, "GPU", "TF32"));
  EXPECT_TRUE(JoinsRun(run, "GPU", ""));
  EXPECT_FALSE(JoinsRun(run, "GPU", "STRICT"));
  EXPECT_FALSE(JoinsRun(run, "CPU", ""));
  run.set_mixed_devices(true);
  EXPECT_TRUE(JoinsRun(run, "GPU", "STRICT"));
  EXPECT_TRUE(JoinsRun(run, "CPU", ""));
  EXPECT_FALSE(JoinsRun(run, "CPU", "TF32"));
}

// CASES R14: a waiting line at least every 5 s lists present and missing; the join timeout ends the
// run.
TEST(MembershipTest, WaitingIsVisibleAndBounded) {
  Cluster cluster(3, 1);
  cluster.Join(WORKER, 0);
  cluster.Join(WORKER, 2);
  MemberEvent beat;
  beat.mutable_beat();
  std::vector<std::string> lines;
  for (int64_t ms = 0; ms < 30'000; ms += 50) {
    cluster.Event(0, beat);
    cluster.Event(2, beat);
    for (const Effect& effect : cluster.Pass(50)) {
      if (effect.kind == Effect::Kind::kLine) lines.push_back(effect.line);
    }
  }
  const std::string line = "waiting for worker 1, server 0; present: worker 0, worker 2";
  EXPECT_THAT(lines, testing::AllOf(testing::SizeIs(5), testing::Each(line)));
  ASSERT_TRUE(cluster.membership().stopping());
  EXPECT_THAT(cluster.membership().outcome(), StatusIs(StatusCode::kDeadlineExceeded, line));
}

// A group that completes too late is late, whether or not a tick came in between.
TEST(MembershipTest, TheLastMemberMayComeTooLate) {
  Cluster cluster(2, 0);
  cluster.Join(WORKER, 0);
  cluster.Advance(30'001);
  cluster.Join(WORKER, 1);
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kDeadlineExceeded, "waiting for worker 1; present: worker 0"));
}

// CASES R07: the first cause comes first, whoever reports first.
TEST(MembershipTest, ADeathOutranksTheErrorsOfThoseWhoNoticedIt) {
  Cluster cluster(3, 0);
  cluster.StartAll(0);
  cluster.Live(100);
  cluster.Report(0, StatusCode::kUnavailable, "rank 1 closed its connection", true);
  cluster.membership().OnClosed(cluster.Session(WORKER, 1), cluster.now());
  cluster.Report(2, StatusCode::kUnavailable, "rank 1 closed its connection", true);
  cluster.membership().OnExit(
      {.member = {WORKER, 1}, .clean = false, .how = "was killed by SIGKILL"}, cluster.now());
  EXPECT_FALSE(cluster.membership().stopping());
  cluster.Live(300);
  ASSERT_TRUE(cluster.membership().stopping());
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kUnavailable, "worker 1, step 4: was killed by SIGKILL"));
  EXPECT_EQ(cluster.membership().failures().size(), 3U);
}

TEST(MembershipTest, WhoDidNotAnswerIsTheCauseWhenOthersOnlyNoticedIt) {
  Cluster cluster(3, 0);
  cluster.StartAll(0);
  cluster.Report(0, StatusCode::kDeadlineExceeded, "missing: rank 2", true, {"worker 2"});
  cluster.Report(1, StatusCode::kDeadlineExceeded, "missing: rank 2", true, {"worker 2"});
  cluster.Live(300);
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kDeadlineExceeded,
                       "worker 2, step 7: did not answer; worker 0 says: missing: rank 2"));
  EXPECT_EQ(cluster.membership().failures().size(), 3U);
}

TEST(MembershipTest, AMembersOwnErrorOutranksItsConsequences) {
  Cluster cluster(2, 0);
  cluster.StartAll(0);
  cluster.Report(0, StatusCode::kUnavailable, "rank 1 closed its connection", true);
  cluster.Report(1, StatusCode::kInvalidArgument, "counts differ", false);
  cluster.membership().OnExit({.member = {WORKER, 1}, .clean = false, .how = "exited with code 2"},
                              cluster.now());
  cluster.Live(300);
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kInvalidArgument, "worker 1, step 7: counts differ"));
}

// What a worker finds wrong with its own gradient ends the run with that code: a broken promise.
TEST(MembershipTest, ANotFiniteGradientIsTheOutcome) {
  Cluster cluster(2, 1);
  cluster.StartAll(1);
  cluster.Report(0, StatusCode::kUnavailable, "worker 1 is gone", true, {"worker 1"});
  cluster.Report(1, StatusCode::kDataLoss, "step 7: the gradient of fc1.weight is not finite",
                 false);
  cluster.Live(300);
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kDataLoss,
                       "worker 1, step 7: the gradient of fc1.weight is not finite"));
}

TEST(MembershipTest, ASilentMemberIsLostAfterItsLease) {
  Cluster cluster(2, 0);
  cluster.StartAll(0);
  MemberEvent beat;
  beat.mutable_beat()->set_step(9);
  for (int64_t ms = 0; ms < 5'400; ms += 50) {
    cluster.Event(0, beat);
    cluster.Pass(50);
  }
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kUnavailable, "worker 1, step 1: was lost: silent"));
}

TEST(MembershipTest, ExitBeforeTheWorkIsDoneIsAFailureEvenWithCodeZero) {
  Cluster cluster(2, 0);
  cluster.StartAll(0);
  cluster.membership().OnExit(
      {.member = {WORKER, 0}, .clean = true, .how = "exited with code 0 before its work was done"},
      cluster.now());
  cluster.Live(300);
  EXPECT_THAT(cluster.membership().outcome(),
              StatusIs(StatusCode::kUnavailable, "exited with code 0"));
}

TEST(MembershipTest, TheUsersStopReachesEveryone) {
  Cluster cluster(2, 1);
  cluster.StartAll(1);
  const auto effects =
      cluster.membership().OnStopRequested(absl::CancelledError("interrupted by SIGINT"), 0);
  EXPECT_EQ(Count(effects, Command::kStop), 3);
  EXPECT_THAT(cluster.membership().outcome(), StatusIs(StatusCode::kCancelled, "SIGINT"));
}

TEST(MembershipTest, UnconnectedMembersAreNamed) {
  Cluster cluster(2, 0);
  cluster.Join(WORKER, 0);
  cluster.Join(WORKER, 1);
  MemberEvent connected;
  connected.mutable_connected();
  cluster.Event(0, connected);
  cluster.Live(45'100);
  EXPECT_THAT(cluster.membership().outcome(), StatusIs(StatusCode::kDeadlineExceeded, "worker 1"));
}

TEST(MembershipTest, AStrangerWhoDoesNotJoinIsClosed) {
  Cluster cluster(1, 0);
  MemberEvent beat;
  beat.mutable_beat();
  const auto effects = cluster.membership().OnEvent(77, beat, 0);
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].kind, Effect::Kind::kClose);
}

}  // namespace
}  // namespace lockstep
