// ShardCopy message by message: what is held, when it is let go, what is refused.
#include "ps_server/core/replication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/ps_server/replication_chain.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(ShardCopy, WithoutReplicasHoldsNothing) {
  Chain chain = MakeChain(PsMode::kAsync, 1);
  chain.Push(1, 1);
  chain.Pull(1, 1);
  ASSERT_THAT(chain.replies, SizeIs(1));
  EXPECT_EQ(chain.replies[0].version, 1);
  EXPECT_EQ(chain.copies[0].confirmed(), 1);
}

TEST(ShardCopy, RepliesWaitForTheTailAndGoExactlyThen) {
  for (const bool aggregated : {true, false}) {
    Chain chain = MakeChain(PsMode::kSync, 3, aggregated);
    for (const int32_t worker : {0, 1}) {
      chain.Push(worker, 1);
      chain.Pull(worker, 1);
    }
    EXPECT_EQ(chain.copies[0].version(), 1);
    chain.MoveDown(0);
    EXPECT_EQ(chain.copies[1].version(), 1);
    chain.MoveUp(0);
    EXPECT_THAT(chain.replies, IsEmpty()) << "the middle alone has it";
    chain.MoveDown(1);
    EXPECT_EQ(chain.copies[2].version(), 1);
    EXPECT_THAT(chain.replies, IsEmpty()) << "nobody has said so";
    EXPECT_EQ(chain.copies[0].confirmed(), 0);
    chain.MoveUp(1);
    chain.MoveUp(0);
    EXPECT_THAT(chain.replies, SizeIs(2));
    EXPECT_EQ(chain.copies[0].confirmed(), 1);
    EXPECT_TRUE(chain.AllEqual());
  }
}

TEST(ShardCopy, StartValuesAreConfirmedToo) {
  Chain chain{.options = OptionsOf(PsMode::kSync, 2)};
  chain.Make(2);
  chain.Attach(0);
  chain.Pull(0, 0);
  chain.Init();
  EXPECT_THAT(chain.replies, IsEmpty());
  EXPECT_FALSE(chain.copies[1].has_state());
  chain.Settle();
  ASSERT_THAT(chain.replies, SizeIs(1));
  EXPECT_EQ(chain.replies[0].version, 0);
  EXPECT_TRUE(chain.copies[1].has_state());
}

TEST(ShardCopy, AWorkersNewStreamIsNotAnsweredWhatItHasNotAsked) {
  Chain chain = MakeChain(PsMode::kAsync, 2);
  chain.Push(1, 1);
  chain.Pull(1, 1);
  chain.Attach(1);
  chain.Settle();
  EXPECT_THAT(chain.replies, IsEmpty());
  chain.Pull(1, 1);
  chain.Settle();
  EXPECT_THAT(chain.replies, SizeIs(1));
}

TEST(ShardCopy, OtherEpochsAreRefusedAndChangeNothing) {
  Chain chain = MakeChain(PsMode::kAsync, 2);
  chain.Push(0, 1);
  const CopyEvent update = chain.down[0].front();
  chain.MoveDown(0);
  const CopyEvent word = chain.up[0].front();
  chain.NewEpoch();
  chain.Settle();
  chain.Push(1, 1);
  const ShardState before = chain.copies[1].Save();
  for (const auto& [copy, event] : {std::pair{size_t{1}, update}, std::pair{size_t{0}, word}}) {
    chain.Do(copy, event);
    EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "epoch 1"));
  }
  chain.Do(1, StateEvent{1, before});
  EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "epoch 1"));
  EXPECT_TRUE(chain.copies[1].Save() == before);
  EXPECT_EQ(chain.copies[0].confirmed(), 1) << "the old word confirmed something new";
  chain.Do(0, EpochEvent{chain.Place(0, 2, 2), {true, true}});
  EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "epoch 2 is not later than"));
}

TEST(ShardCopy, AMessageThatComesTwiceIsDoneOnce) {
  Chain chain = MakeChain(PsMode::kAsync, 2);
  chain.Push(0, 1);
  const CopyEvent update = chain.down[0].front();
  chain.MoveDown(0);
  chain.Do(1, update);
  EXPECT_THAT(chain.fault, IsOk());
  EXPECT_EQ(chain.copies[1].version(), 1);
}

TEST(ShardCopy, ALostMessageIsNoticedAndTheNextStreamSendsWhatIsMissing) {
  for (const bool aggregated : {true, false}) {
    Chain chain = MakeChain(PsMode::kAsync, 3, aggregated);
    chain.Push(0, 1);
    chain.down[0].clear();
    chain.Push(1, 1);
    const CopyEvent next = chain.down[0].front();
    chain.Do(1, next);
    EXPECT_THAT(chain.fault, StatusIs(StatusCode::kDataLoss, "of its predecessor, expected"));
    EXPECT_EQ(chain.copies[1].version(), 0);
    chain.Reopen(0);
    chain.Settle();
    EXPECT_EQ(chain.copies[2].version(), 2);
    EXPECT_TRUE(chain.AllEqual());
  }
}

TEST(ShardCopy, ALinkThatBeginsAnewSendsStagedPushesDownTheWholeChain) {
  Chain chain = MakeChain(PsMode::kSync, 3, /*aggregated=*/false);
  chain.Push(0, 1);
  chain.down[0].clear();  // the stream broke
  chain.Reopen(0);
  chain.Settle();
  EXPECT_THAT(chain.fault, IsOk());
  chain.Push(1, 1);
  chain.Pull(1, 1);
  chain.Settle();
  EXPECT_THAT(chain.replies, SizeIs(1));
  EXPECT_EQ(chain.copies[2].version(), 1);
  EXPECT_TRUE(chain.AllEqual());
}

TEST(ShardCopy, WhoeverJoinsIsWaitedForOnceItHasAll) {
  Chain chain = MakeChain(PsMode::kAsync, 1);
  chain.Push(0, 1);
  chain.NewEpoch(/*joiners=*/1);
  chain.Attach(0);
  chain.Push(0, 2);
  chain.Pull(0, 2);
  EXPECT_THAT(chain.replies, SizeIs(1)) << "nobody waits for a copy that joins";
  chain.MoveDown(0);
  EXPECT_EQ(chain.copies[1].version(), 2);
  EXPECT_FALSE(chain.copies[1].has_state()) << "updates under way may be missing";
  chain.Push(0, 3);
  chain.Pull(0, 3);
  EXPECT_THAT(chain.replies, SizeIs(2));
  chain.MoveUp(0);  // it has the state: from here on it is waited for
  EXPECT_EQ(chain.caught_up, 0);
  chain.Push(0, 4);
  chain.Pull(0, 4);
  EXPECT_THAT(chain.replies, SizeIs(2));
  chain.MoveDown(0);
  EXPECT_TRUE(chain.copies[1].has_state());
  EXPECT_EQ(chain.copies[1].version(), 4);
  chain.MoveUp(0);
  EXPECT_THAT(chain.replies, SizeIs(3));
  EXPECT_EQ(chain.caught_up, 1);
  chain.Push(0, 5);
  chain.Settle();
  EXPECT_EQ(chain.caught_up, 1) << "said once";
  EXPECT_TRUE(chain.AllEqual());
}

// It may be a member already when the stream breaks: its answer to kMember is what was lost.
TEST(ShardCopy, WhoeverMayBeAMemberIsWaitedForAcrossABrokenStream) {
  Chain chain = MakeChain(PsMode::kAsync, 1);
  chain.NewEpoch(/*joiners=*/1);
  chain.Attach(0);
  chain.MoveDown(0);
  chain.MoveUp(0);
  chain.MoveDown(0);
  ASSERT_TRUE(chain.copies[1].has_state());
  chain.up[0].clear();
  chain.Reopen(0);
  chain.Push(0, 1);
  chain.Pull(0, 1);
  EXPECT_THAT(chain.replies, IsEmpty());
  chain.Settle();
  EXPECT_THAT(chain.replies, SizeIs(1));
  EXPECT_EQ(chain.caught_up, 1);
}

TEST(ShardCopy, WhoeverJoinsIsNoMemberWhateverItHeardBefore) {
  Chain chain = MakeChain(PsMode::kAsync, 2);
  ASSERT_TRUE(chain.copies[1].has_state());
  ++chain.epoch;
  chain.Do(1, EpochEvent{chain.Place(1, 2, 1), {true, true}});
  EXPECT_THAT(chain.fault, IsOk());
  EXPECT_FALSE(chain.copies[1].has_state());
}

TEST(ShardCopy, WhoeverHasNotCaughtUpIsNoHead) {
  Chain chain = MakeChain(PsMode::kAsync, 1);
  chain.Push(0, 1);
  chain.NewEpoch(/*joiners=*/1);
  chain.MoveDown(0);
  chain.copies.erase(chain.copies.begin());
  ++chain.epoch;
  chain.Do(0, EpochEvent{chain.Place(0, 1, 1), {true, true}});
  EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "has not caught up"));
}

TEST(ShardCopy, ASuccessorThatIsBehindGetsTheStateOneThatIsNotGetsNone) {
  Chain chain = MakeChain(PsMode::kAsync, 3);
  chain.Push(0, 1);
  chain.MoveDown(0);  // the tail lacks it
  chain.NewEpoch();
  EXPECT_TRUE(std::holds_alternative<ReplicateEvent>(chain.down[0].front()));
  chain.MoveDown(0);
  EXPECT_TRUE(std::holds_alternative<StateEvent>(chain.down[1].front()));
  chain.Settle();
  EXPECT_TRUE(chain.AllEqual());
  EXPECT_EQ(chain.copies[0].confirmed(), 1);
}

TEST(ShardCopy, TheNextHeadKnowsEveryPushThatWasApplied) {
  for (const bool aggregated : {true, false}) {
    Chain chain = MakeChain(PsMode::kAsync, 2, aggregated);
    chain.Push(0, 1);
    chain.Settle();
    chain.copies.erase(chain.copies.begin());
    chain.NewEpoch();
    chain.Attach(0);
    EXPECT_EQ(chain.copies[0].shard().last_step(0), 1);
    chain.Push(0, 1);
    EXPECT_EQ(chain.copies[0].version(), 1) << "applied twice";
    EXPECT_EQ(chain.copies[0].shard().duplicates(), 1);
  }
}

// Not aggregated: a push that copies have staged is durable nowhere; its worker sends it again, and
// it counts once.
TEST(ShardCopy, StagedPushesAreClearedByANewEpoch) {
  Chain chain = MakeChain(PsMode::kSync, 2, /*aggregated=*/false);
  chain.Push(0, 1);
  chain.Settle();
  chain.copies.erase(chain.copies.begin());
  chain.NewEpoch();
  for (const int32_t worker : {0, 1}) chain.Attach(worker);
  chain.Push(1, 1);
  EXPECT_EQ(chain.copies[0].version(), 0) << "counted a push of the old epoch";
  chain.Push(0, 1);
  EXPECT_EQ(chain.copies[0].version(), 1);
}

TEST(ShardCopy, ADroppedPushStaysDroppedAfterTheHeadIsLost) {
  for (const bool aggregated : {true, false}) {
    Chain chain = MakeChain(PsMode::kKOfN, 2, aggregated, /*workers=*/3);
    for (const int32_t worker : {0, 1}) chain.Push(worker, 1, 0);
    chain.Push(2, 1, 0);  // late: version 1 is there
    chain.Settle();
    EXPECT_TRUE(chain.AllEqual());
    chain.copies.erase(chain.copies.begin());
    chain.NewEpoch();
    chain.Attach(2);
    EXPECT_EQ(chain.copies[0].shard().last_step(2), 1);
    chain.Pull(2, 1);
    ASSERT_THAT(chain.replies, SizeIs(1));
    EXPECT_TRUE(chain.replies[0].rejected);
    EXPECT_EQ(chain.replies[0].version, 1);
  }
}

TEST(ShardCopy, RefusesWhatIsNotItsPart) {
  Chain chain = MakeChain(PsMode::kAsync, 2);
  chain.Do(1, ShardEvent{AttachEvent{0, 1}});
  EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "not the head"));
  chain.Do(1, SuccessorEvent{});
  EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "is the tail"));
  chain.Do(0, ReplicatedEvent{1, 99, 0});
  EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "message 99"));
  const ShardState old = chain.copies[1].Save();
  chain.Push(0, 1);
  chain.Settle();
  chain.Do(1, StateEvent{1, old});
  EXPECT_THAT(chain.fault, StatusIs(StatusCode::kFailedPrecondition, "can't have less"));
  const Replicate empty = {.kind = Replicate::Kind::kUpdate, .version = 2, .sequence = 6};
  chain.Do(1, ReplicateEvent{1, empty});
  EXPECT_FALSE(chain.fault.ok());
  EXPECT_EQ(chain.copies[1].version(), 1);
  ChainPlace place = chain.Place(0, 1, 1);
  place.predecessor = 3;
  EXPECT_THAT(ShardCopy::Create(chain.options, place),
              StatusIs(StatusCode::kInvalidArgument, "has no predecessor"));
}

TEST(ShardCopy, CallsItsCrashPointsInTheirOrder) {
  Chain chain = MakeChain(PsMode::kAsync, 2);
  std::vector<std::pair<CrashPoint, int64_t>> reached;
  chain.copies[0].set_crash_hook(
      [&](CrashPoint point, int64_t step) { reached.emplace_back(point, step); });
  chain.Push(0, 1);
  chain.Pull(0, 1);
  chain.Settle();
  chain.NewEpoch();
  EXPECT_THAT(reached, ElementsAre(std::pair{CrashPoint::kBeforeReceive, 1},
                                   std::pair{CrashPoint::kHalfReceived, 1},
                                   std::pair{CrashPoint::kReceivedNotApplied, 1},
                                   std::pair{CrashPoint::kAppliedNotReplicated, 1},
                                   std::pair{CrashPoint::kReplicatedNotAcknowledged, 1},
                                   std::pair{CrashPoint::kRestoring, 1}));
}

TEST(Replicate, ComesBackFromItsBytes) {
  const Replicate message = {.kind = Replicate::Kind::kPush,
                             .version = 7,
                             .sequence = 9,
                             .pushes = {{3, 2, 8, 1}, {4, 1, 8, 1}},
                             .base = 6};
  const std::string bytes = EncodeReplicate(message);
  const auto decoded = DecodeReplicate(bytes);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(EncodeReplicate(*decoded), bytes);
  EXPECT_EQ(decoded->kind, Replicate::Kind::kPush);
  EXPECT_EQ(decoded->pushes[1].step, 8);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = DecodeReplicate(bytes.substr(0, size));
    EXPECT_EQ(cut.ok(), size == 32 || size == 56) << size;  // the fixed fields; one identity
  }
  std::string damaged = bytes;
  damaged[4] = 77;
  EXPECT_THAT(DecodeReplicate(damaged), StatusIs(StatusCode::kDataLoss, "kind 77"));
}

}  // namespace
}  // namespace lockstep
