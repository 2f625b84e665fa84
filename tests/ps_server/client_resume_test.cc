// Where a worker goes on in a later epoch, which versions it may be given, and what it must not
// lose on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "ps_server/client/client_core.h"
#include "tests/ps_server/client_core_fixture.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

struct ResumeCase {
  const char* name;
  PsMode mode;
  std::optional<int64_t> own;
  std::vector<int64_t> applied;  // [shard]: what the WELCOMEs say
  bool restored;
  ResumePoint expected;
};
void PrintTo(const ResumeCase& row, std::ostream* out) { *out << row.name; }
class ResumeTest : public CoreTest, public testing::WithParamInterface<ResumeCase> {};

TEST_P(ResumeTest, GoesOnAfterTheLeastStepThatAllShardsHave) {
  const ResumeCase& row = GetParam();
  PsRules rules;
  rules.mode = row.mode;
  rules.staleness = row.mode == PsMode::kBounded ? 2 : 0;
  ClientCore& core = Welcomed({.rules = rules}, row.applied);
  EXPECT_EQ(core.resume_step(), std::min(row.applied[0], row.applied[1]));
  const auto point = core.Resume(row.own, row.restored);
  ASSERT_THAT(point, IsOk());
  EXPECT_EQ(point->step, row.expected.step);
  EXPECT_EQ(point->pull, row.expected.pull);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ResumeTest,
    testing::Values(
        ResumeCase{"OwnParametersAreThose", PsMode::kSync, 7, {7, 7}, false, {7, false}},
        ResumeCase{"AShardIsOneAhead", PsMode::kSync, 7, {8, 7}, false, {7, false}},
        ResumeCase{"AnswerWasLost", PsMode::kSync, 7, {8, 8}, false, {8, true}},
        ResumeCase{"Replacement", PsMode::kSync, std::nullopt, {8, 7}, false, {7, true}},
        ResumeCase{"BeforeTheFirstStep", PsMode::kSync, std::nullopt, {0, 1}, false, {0, true}},
        ResumeCase{"Rewound", PsMode::kSync, 7, {4, 4}, true, {4, true}},
        ResumeCase{"RewoundToOwnStep", PsMode::kSync, 4, {4, 4}, true, {4, false}},
        ResumeCase{"AsyncKeeps", PsMode::kAsync, 7, {7, 8}, false, {7, false}},
        ResumeCase{"AsyncRewoundHoldsVoidUpdates", PsMode::kAsync, 4, {4, 4}, true, {4, true}},
        ResumeCase{"KOfNPulls", PsMode::kKOfN, 7, {7, 7}, false, {7, true}},
        ResumeCase{"BoundedKeeps", PsMode::kBounded, 7, {7, 7}, false, {7, false}},
        // The answer to step 8 may be held until others move: step 8 is made again.
        ResumeCase{"BoundedMakesItsStepAgain", PsMode::kBounded, 7, {8, 8}, false, {7, false}},
        ResumeCase{"BoundedReplacement", PsMode::kBounded, std::nullopt, {8, 8}, false, {7, true}},
        ResumeCase{"BoundedRewound", PsMode::kBounded, 8, {8, 8}, true, {7, true}},
        ResumeCase{"BoundedStart", PsMode::kBounded, std::nullopt, {0, 0}, false, {0, true}}),
    [](const auto& row) { return row.param.name; });

class LossTest : public CoreTest {};

TEST_F(LossTest, AServerWithoutAnAcknowledgedStepIsNamed) {
  ClientCore& core = Welcomed({}, {7, 6});
  EXPECT_THAT(core.Resume(7, false),
              StatusIs(StatusCode::kDataLoss,
                       "worker 1 finished step 7, but some shard has only step 6 of it"));
  EXPECT_THAT(core.Resume(7, true), IsOk());
}

TEST_F(LossTest, AServerWithoutAVersionThatItGaveIsNamed) {
  ClientCore& core = Make({.versions = {10, 12}});
  core.Hello();
  TakeAll();
  PsFrame welcome = Header(WELCOME, 0);
  welcome.set_version(10);
  ASSERT_THAT(Say(welcome), IsOk());
  PsFrame behind = Header(WELCOME, 1);
  behind.set_version(11);
  EXPECT_THAT(Say(behind), StatusIs(StatusCode::kDataLoss,
                                    "server 1 has version 11 of shard 1, but worker 1 was given "
                                    "version 12: acknowledged updates are lost"));
}

// An earlier epoch's versions count when a reply comes, too.
TEST_F(LossTest, AReplyDoesNotGoBackBehindAnEarlierEpoch) {
  PsRules rules;
  rules.mode = PsMode::kAsync;
  ClientCore& core =
      Welcomed({.rules = rules, .tensors = {100}, .server_of_shard = {0}, .versions = {20}}, {5});
  std::vector<float> parameters(100);
  core.Pull(5, parameters);
  TakeAll();
  EXPECT_THAT(Reply(0, 5, 19, 1.0F), StatusIs(StatusCode::kInternal, "version 20 of shard 0"));
}

// SYNC: the old epoch ended when one shard had answered for step 8 and the other had not. The step
// is made again from the parameters of 7, which the one ahead still has.
TEST_F(LossTest, APullThatWasCutShortIsKnownAndReadAgainOneStepEarlier) {
  ClientCore& before = Welcomed({}, {7, 7});
  std::vector<float> parameters(static_cast<size_t>(elements()));
  before.Pull(8, parameters);
  EXPECT_FALSE(before.torn());
  TakeAll();
  ASSERT_THAT(Reply(0, 8, 8, 1.0F), IsOk());
  EXPECT_TRUE(before.torn());
  const std::vector<int64_t> versions = before.versions();
  EXPECT_THAT(versions, ElementsAre(8, 0));

  ClientCore& after = Welcomed({.versions = versions}, {8, 7});
  const auto point = after.Resume(std::nullopt, false);
  ASSERT_THAT(point, IsOk());
  ASSERT_EQ(*point, (ResumePoint{7, true}));
  after.Pull(point->step, parameters);
  TakeAll();
  ASSERT_THAT(Reply(0, 7, 7, 3.0F), IsOk());
  ASSERT_THAT(Reply(1, 7, 7, 3.0F), IsOk());
  EXPECT_TRUE(after.done());
  EXPECT_FALSE(after.torn());
  EXPECT_THAT(parameters, testing::Each(3.0F));
}

PsRules In(PsMode mode) {
  PsRules rules;
  rules.mode = mode;
  if (mode == PsMode::kBounded) rules.staleness = 2;
  if (mode == PsMode::kKOfN) rules.k = 3;
  return rules;
}

struct VersionCase {
  const char* name;
  PsMode mode;
  int64_t first;   // version given for step 4
  int64_t second;  // for step 5
  bool ok;
};
void PrintTo(const VersionCase& row, std::ostream* out) { *out << row.name; }
class VersionsTest : public CoreTest, public testing::WithParamInterface<VersionCase> {};

TEST_P(VersionsTest, NeverGoBackAndHoldOwnSteps) {
  const VersionCase& row = GetParam();
  ClientCore& core =
      Welcomed({.rules = In(row.mode), .tensors = {100}, .server_of_shard = {0}}, {4});
  std::vector<float> parameters(100);
  core.Pull(4, parameters);
  TakeAll();
  ASSERT_THAT(Reply(0, 4, row.first, 1.0F), IsOk());
  core.Pull(5, parameters);
  TakeAll();
  const absl::Status status = Reply(0, 5, row.second, 2.0F);
  if (row.ok) {
    EXPECT_THAT(status, IsOk());
    EXPECT_THAT(core.versions(), ElementsAre(row.second));
  } else {
    EXPECT_THAT(status, StatusIs(StatusCode::kInternal, "out of turn"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, VersionsTest,
    testing::Values(VersionCase{"SyncIsTheStep", PsMode::kSync, 4, 5, true},
                    VersionCase{"SyncIsNothingElse", PsMode::kSync, 4, 6, false},
                    VersionCase{"AsyncIsLater", PsMode::kAsync, 10, 17, true},
                    VersionCase{"AsyncIsTheSame", PsMode::kAsync, 10, 10, true},
                    VersionCase{"AsyncDoesNotGoBack", PsMode::kAsync, 10, 9, false},
                    VersionCase{"AsyncHoldsOwnSteps", PsMode::kAsync, 4, 4, false},
                    VersionCase{"BoundedDoesNotGoBack", PsMode::kBounded, 10, 9, false},
                    VersionCase{"KOfNMayHaveDroppedOwnSteps", PsMode::kKOfN, 4, 4, true},
                    VersionCase{"KOfNDoesNotGoBack", PsMode::kKOfN, 4, 3, false}),
    [](const auto& row) { return row.param.name; });

// K_OF_N: all shards are told one round, so that none counts on a push that another one calls late.
TEST_F(LossTest, APushCarriesTheLeastRoundThatItWasComputedFrom) {
  ClientCore& core = Welcomed({.rules = In(PsMode::kKOfN)});
  std::vector<float> parameters(static_cast<size_t>(elements()));
  core.Pull(0, parameters);
  TakeAll();
  for (const size_t shard : {size_t{0}, size_t{1}}) {
    PsFrame reply = Chunk(shard, 0, 30, 0);
    reply.set_base(shard == 0 ? 9 : 8);
    reply.set_total(ranges_[shard].count);
    for (int64_t at = 0; at < reply.total(); at += 1'000) {
      reply.set_offset(at);
      ASSERT_THAT(Say(reply, Values(std::min<int64_t>(1'000, reply.total() - at), 1.0F)), IsOk());
    }
  }
  ASSERT_THAT(core.Push(1, 0, parameters), IsOk());
  const std::vector<ClientFrame> frames = TakeAll();
  EXPECT_GE(frames.size(), 2U);
  for (const ClientFrame& frame : frames) EXPECT_EQ(frame.header.base(), 8);
}

TEST_F(LossTest, CountsARejectedPushOnceAShard) {
  ClientCore& core = Welcomed({.rules = In(PsMode::kKOfN)});
  std::vector<float> parameters(static_cast<size_t>(elements()));
  core.Pull(1, parameters);
  TakeAll();
  PsFrame first = Chunk(0, 1, 3, 0);
  first.set_rejected(true);
  ASSERT_THAT(Say(first, Values(1'000, 1.0F)), IsOk());
  PsFrame second = Chunk(0, 1, 3, 1'000);
  second.set_rejected(true);
  ASSERT_THAT(Say(second, Values(ranges_[0].count - 1'000, 1.0F)), IsOk());
  EXPECT_EQ(core.rejected(), 1);
  ASSERT_THAT(Reply(1, 1, 3, 1.0F), IsOk());
  EXPECT_EQ(core.rejected(), 1);
  EXPECT_TRUE(core.done());
}

}  // namespace
}  // namespace lockstep
