// Mode BOUNDED of the shard, one event at a time.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "tests/ps_server/one_shard.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kCount = 8;
constexpr uint64_t kSeed = 11;

PsRules Rules(int32_t staleness) {
  return {.mode = PsMode::kBounded,
          .staleness = staleness,
          .optimizer = {.learning_rate = 0.1F, .momentum = 0.9F, .divisor = 1.0F}};
}

class BoundedShard : public OneShard {
 public:
  BoundedShard(int32_t workers, int32_t staleness)
      : OneShard(OneShardOptions(Rules(staleness), workers, kCount), kSeed) {}

  // Pushes and pulls a step. Returns whether the reply came at once.
  bool Step(int32_t worker, int64_t step) {
    EXPECT_TRUE(Push(worker, step).update.has_value()) << worker << " " << step;
    return !Pull(worker, step).replies.empty();
  }
};

// R38: 3 workers, bound 2, worker 2 stands still: the others get 2 steps ahead and no further.
TEST(BoundedShard, TheFastestIsAsFarAheadAsTheBoundSays) {
  BoundedShard shard(3, 2);
  EXPECT_TRUE(shard.Step(0, 1));
  EXPECT_TRUE(shard.Step(0, 2));
  EXPECT_FALSE(shard.Step(0, 3));  // clock 3 would read what lacks clock 0 of workers 1 and 2
  EXPECT_TRUE(shard.Step(1, 1));
  const ShardOutput slow = shard.Push(2, 1);
  ASSERT_EQ(slow.replies.size(), 1U);
  EXPECT_EQ(slow.replies[0].worker, 0);
  EXPECT_EQ(slow.replies[0].step, 3);
  EXPECT_EQ(slow.replies[0].version, 5);
  EXPECT_EQ(slow.replies[0].least_step, 1);
  EXPECT_EQ(shard.Push(0, 4).update->staleness->clock, 2);
}

TEST(BoundedShard, TheTimeThatTheBoundTookIsToldOfTheWaitAlone) {
  BoundedShard shard(2, 1);
  shard.now_ns = 10;
  EXPECT_TRUE(shard.Step(0, 1));
  shard.Pull(0, 2);  // asked long before its own push is here: that is no blocked time
  shard.now_ns = 100;
  EXPECT_TRUE(shard.Push(0, 2).replies.empty());
  shard.now_ns = 175;
  const ShardOutput output = shard.Push(1, 1);
  ASSERT_EQ(output.replies.size(), 1U);
  EXPECT_EQ(output.replies[0].blocked_ns, 75);
  EXPECT_EQ(shard.Pull(1, 1).replies[0].blocked_ns, 0);
}

// R38: what workers read with bound 0 is what they read at SYNC's barrier: every push of the step,
// none of the next one, however late they ask.
TEST(BoundedShard, BoundZeroReadsWhatABarrierReads) {
  BoundedShard shard(2, 0);
  EXPECT_FALSE(shard.Step(0, 1));
  EXPECT_EQ(shard.Push(1, 1).replies.size(), 1U);
  const std::vector<float> barrier = *shard.shard().parameters();
  EXPECT_FALSE(shard.Step(0, 2));  // worker 1 has not even asked for step 1
  const ShardOutput late = shard.Pull(1, 1);
  ASSERT_EQ(late.replies.size(), 1U);
  EXPECT_EQ(late.replies[0].version, 2);
  EXPECT_EQ(late.replies[0].least_step, 1);
  EXPECT_TRUE(SameBits(*late.replies[0].parameters, barrier));
  const ShardOutput second = shard.Push(1, 2);
  ASSERT_EQ(second.replies.size(), 1U);
  EXPECT_EQ(second.replies[0].version, 4);
}

TEST(BoundedShard, AHugeBoundNeverBlocks) {
  BoundedShard shard(3, 1 << 30);
  for (int64_t step = 1; step <= 50; ++step) EXPECT_TRUE(shard.Step(0, step));
}

TEST(BoundedShard, WhoHasFinishedHoldsNobody) {
  ShardOptions options = OneShardOptions(Rules(1), 2, kCount);
  options.rules.steps = 2;
  OneShard shard(options, kSeed);
  shard.Push(1, 1);
  shard.Push(1, 2);  // and it leaves
  for (int64_t step = 1; step <= 2; ++step) {
    shard.Push(0, step);
    EXPECT_EQ(shard.Pull(0, step).replies.size(), 1U);
  }
}

TEST(BoundedShard, WhoIsAbsentHoldsNobody) {
  BoundedShard shard(3, 0);
  shard.Step(0, 1);
  shard.Step(1, 1);
  shard.Regroup({true, true, false});
  EXPECT_EQ(shard.Pull(0, 1).replies.size(), 1U);
  EXPECT_EQ(shard.Pull(1, 1).replies.size(), 1U);
  EXPECT_FALSE(shard.Step(1, 2));
  EXPECT_TRUE(shard.Step(0, 2));
  EXPECT_THAT(RefusalOf(shard.Attach(2)),
              StatusIs(StatusCode::kFailedPrecondition, "worker 2 is not in this group"));
}

// It was away while the others made 6 steps: they would wait for all that it missed, and a worker
// that takes up its last read would wait for it before the group can begin.
TEST(BoundedShard, WhoComesBackIsAsFarBehindAsTheBoundAllows) {
  for (const int32_t staleness : {0, 2}) {
    BoundedShard shard(3, staleness);
    for (int32_t worker : {0, 1, 2}) shard.Step(worker, 1);
    shard.Regroup({true, true, false});
    for (int64_t step = 2; step <= 7; ++step) {
      shard.Step(0, step);
      shard.Step(1, step);
    }
    shard.Regroup({true, true, true});
    EXPECT_EQ(shard.shard().last_step(2), 7 - staleness);
    EXPECT_EQ(shard.shard().last_step(0), 7);
    EXPECT_EQ(shard.Pull(0, 6).replies.size(), 1U);  // takes up what it read last
    const ShardOutput read = shard.Pull(2, 6 - staleness);
    ASSERT_EQ(read.replies.size(), 1U);
    // Worker 0 goes on from its read of 7, and is then held.
    shard.Push(0, 8);
    EXPECT_TRUE(shard.Pull(0, 8).replies.empty());
    const ShardOutput next = shard.Push(2, 8 - staleness);
    EXPECT_EQ(next.update->staleness->clock, next.update->step - 1 - read.replies[0].least_step);
    shard.Push(1, 8);
    EXPECT_EQ(shard.Pull(1, 8).replies.size(), 1U);
  }
}

// A state does not say who was away when it was saved, but nobody else is so far behind.
TEST(BoundedShard, WhoWasAwayWhenAStateWasSavedComesBackTheSameWay) {
  BoundedShard shard(2, 1);
  shard.Regroup({true, false});
  for (int64_t step = 1; step <= 5; ++step) shard.Step(0, step);
  OneShard restored(shard.options(), kSeed);
  restored.Become(shard.shard().Save(), {true, true});
  EXPECT_EQ(restored.shard().last_step(1), 4);
  BoundedShard near(2, 1);
  near.Step(0, 1);
  near.Step(0, 2);
  restored.Become(near.shard().Save(), {true, true});
  EXPECT_EQ(restored.shard().last_step(1), 0) << "it was there, and is to make its step";
}

TEST(BoundedShard, AWaitThatExpiresNamesTheSlowAndEndsTheWaitingOnly) {
  BoundedShard shard(3, 1);
  shard.Step(0, 1);
  shard.Step(0, 2);
  shard.Push(2, 1, 0, 0, 3);
  shard.Push(1, 1);
  shard.now_ns = 400 * kNsPerMs;
  const ShardOutput expired = shard.Tick();
  ASSERT_EQ(expired.refusals.size(), 1U);
  EXPECT_EQ(expired.refusals[0].worker, 0);
  EXPECT_THAT(expired.refusals[0].status,
              StatusIs(StatusCode::kDeadlineExceeded,
                       "waited 400 ms for the push of step 2 of worker 2 (at step 1: 3 of 8 "
                       "elements are here)"));
  EXPECT_EQ(BlamedBy(expired.refusals[0].status), std::vector<std::string>{"worker 2"});
  EXPECT_TRUE(shard.Push(2, 1, 0, 3, 8).update.has_value());  // the others go on
}

// Zhang et al., IJCAI 2016: an old gradient takes a shorter step.
TEST(ScaleByStaleness, TheRateIsDividedByOnePlusTheUpdatesMissed) {
  for (const PsMode mode : {PsMode::kAsync, PsMode::kBounded}) {
    PsRules rules = Rules(0);
    rules.mode = mode;
    rules.staleness = mode == PsMode::kBounded ? 9 : 0;
    rules.scale_by_staleness = true;
    OneShard shard(OneShardOptions(rules, 3, kCount), kSeed);
    std::vector<float> expected = StartValues(kSeed, kCount);
    std::vector<float> velocity(kCount, 0.0F);
    for (int32_t worker = 0; worker < 3; ++worker) {
      EXPECT_EQ(shard.Push(worker, 1).update->staleness->update, worker);
      OptimizerOptions scaled = rules.optimizer;
      scaled.learning_rate /= static_cast<float>(1 + worker);
      ReferenceStep(Gradients(kSeed, worker, 1, kCount), scaled, &velocity, &expected);
    }
    EXPECT_TRUE(SameBits(*shard.shard().parameters(), expected));
  }
}

}  // namespace
}  // namespace lockstep
