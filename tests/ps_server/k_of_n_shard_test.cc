// Mode K_OF_N of the shard, one event at a time.
#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "tests/ps_server/one_shard.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kCount = 8;
constexpr uint64_t kSeed = 13;

PsRules Rules(int32_t workers, int32_t k, bool apply_late) {
  return {.mode = PsMode::kKOfN,
          .k = k,
          .apply_late = apply_late,
          .optimizer = {
              .learning_rate = 0.1F, .momentum = 0.9F, .divisor = static_cast<float>(workers)}};
}

class KOfNShard : public OneShard {
 public:
  KOfNShard(int32_t workers, int32_t k, bool apply_late = false, int64_t steps = 0)
      : OneShard(OptionsOf(workers, k, apply_late, steps), kSeed) {}

  void ExpectReplay(const std::vector<ShardUpdate>& updates) {
    const Replayed replayed =
        Replay(kSeed, updates, kCount, options().rules.optimizer, true, options().rules.k);
    EXPECT_TRUE(SameBits(*shard().parameters(), replayed.versions.back()));
  }

 private:
  static ShardOptions OptionsOf(int32_t workers, int32_t k, bool apply_late, int64_t steps) {
    ShardOptions options = OneShardOptions(Rules(workers, k, apply_late), workers, kCount);
    options.rules.steps = steps;
    return options;
  }
};

// R39: the first 3 of 4, whoever they are; summed in rank order, not in that of arrival.
TEST(KOfNShard, TheFirstKPushesMakeAnUpdate) {
  KOfNShard shard(4, 3);
  EXPECT_FALSE(shard.Push(3, 1).update.has_value());
  EXPECT_FALSE(shard.Push(0, 1).update.has_value());
  shard.Pull(3, 1);
  const ShardOutput output = shard.Push(2, 1);
  ASSERT_TRUE(output.update.has_value());
  ASSERT_EQ(output.update->ids.size(), 3U);
  EXPECT_EQ(output.update->ids[0].worker, 0);
  EXPECT_EQ(output.update->ids[1].worker, 2);
  EXPECT_EQ(output.update->ids[2].worker, 3);
  ASSERT_EQ(output.replies.size(), 1U);
  EXPECT_EQ(output.replies[0].worker, 3);
  EXPECT_FALSE(output.replies[0].rejected);
  shard.ExpectReplay({*output.update});
}

TEST(KOfNShard, ALatePushIsDroppedAndToldSoAndItsWorkerGoesOn) {
  KOfNShard shard(3, 2);
  shard.Push(0, 1);
  const ShardOutput first = shard.Push(1, 1);
  shard.Pull(2, 1);
  const ShardOutput late = shard.Push(2, 1);
  EXPECT_FALSE(late.update.has_value());
  ASSERT_TRUE(late.dropped.has_value());
  EXPECT_EQ(late.dropped->worker, 2);
  EXPECT_EQ(late.dropped->step, 1);
  ASSERT_EQ(late.replies.size(), 1U);
  EXPECT_TRUE(late.replies[0].rejected);
  EXPECT_EQ(late.replies[0].version, 1);
  EXPECT_EQ(shard.shard().last_step(2), 1);
  EXPECT_FALSE(shard.Push(2, 1).dropped.has_value());  // again: it is dropped already
  EXPECT_EQ(shard.shard().duplicates(), 1);
  EXPECT_FALSE(shard.Push(2, 2, 1).update.has_value());
  const ShardOutput second = shard.Push(0, 2, 1);
  ASSERT_TRUE(second.update.has_value());
  EXPECT_FALSE(shard.Pull(2, 2).replies[0].rejected);
  shard.ExpectReplay({*first.update, *second.update});
}

// It waits for nobody: on several shards its worker would wait here while others wait for it there.
TEST(KOfNShard, ALatePushIsAppliedAtOnceAsOneOfKAndEndsNoRound) {
  KOfNShard shard(3, 2, /*apply_late=*/true);
  shard.Push(0, 1);
  const ShardOutput first = shard.Push(1, 1);
  EXPECT_TRUE(shard.Pull(2, 1).replies.empty());
  const ShardOutput late = shard.Push(2, 1);
  ASSERT_TRUE(late.update.has_value());
  EXPECT_EQ(late.update->late, std::vector<int32_t>{2});
  EXPECT_EQ(late.update->ids.size(), 1U);
  ASSERT_EQ(late.replies.size(), 1U);
  EXPECT_EQ(late.replies[0].version, 2);
  EXPECT_EQ(late.replies[0].round, 1);
  EXPECT_FALSE(late.replies[0].rejected);
  EXPECT_FALSE(shard.Push(0, 2, 1).update.has_value());  // of version 1, and not late
  const ShardOutput second = shard.Push(2, 2, 1);
  ASSERT_TRUE(second.update.has_value());
  EXPECT_EQ(second.update->late, std::vector<int32_t>{});
  EXPECT_EQ(shard.shard().version(), 3);
  EXPECT_EQ(shard.shard().round(), 2);
  shard.ExpectReplay({*first.update, *late.update, *second.update});
}

// A worker's last push is late, and it can make no other: nobody else is left to wait for.
TEST(KOfNShard, ALateLastPushGoesWithTheRoundThatWaitedForIt) {
  KOfNShard shard(4, 2, /*apply_late=*/true, /*steps=*/2);
  for (int64_t step = 1; step <= 2; ++step) {
    shard.Push(0, step, step - 1);
    EXPECT_TRUE(shard.Push(1, step, step - 1).update.has_value());  // both are through
  }
  EXPECT_EQ(shard.Push(2, 1, 0).update->late, std::vector<int32_t>{2});
  EXPECT_EQ(shard.Push(3, 1, 0).update->late, std::vector<int32_t>{3});
  EXPECT_FALSE(shard.Push(2, 2, 2).update.has_value());  // the other one may come, too
  const ShardOutput last = shard.Push(3, 2, 0);
  ASSERT_TRUE(last.update.has_value());
  EXPECT_EQ(last.update->ids.size(), 2U);
  EXPECT_EQ(last.update->late, std::vector<int32_t>{3});
  EXPECT_EQ(shard.shard().round(), 3);
}

TEST(KOfNShard, TowardsTheEndAnUpdateIsOfThoseStillAtWork) {
  KOfNShard shard(3, 2, /*apply_late=*/false, /*steps=*/1);
  EXPECT_FALSE(shard.Push(0, 1).update.has_value());
  EXPECT_TRUE(shard.Push(1, 1).update.has_value());
  EXPECT_TRUE(shard.Push(2, 1).dropped.has_value());
  KOfNShard other(2, 2, /*apply_late=*/false, /*steps=*/2);
  EXPECT_FALSE(other.Push(0, 1).update.has_value());
  EXPECT_TRUE(other.Push(1, 1).update.has_value());
  EXPECT_FALSE(other.Push(0, 2, 1).update.has_value());
  // Worker 1's last push is dropped: it is at work no more, and worker 0 was waiting for it.
  const ShardOutput last = other.Push(1, 2, 0);
  EXPECT_TRUE(last.dropped.has_value());
  ASSERT_TRUE(last.update.has_value());
  EXPECT_EQ(last.update->ids.size(), 1U);
  EXPECT_EQ(last.update->ids[0].worker, 0);
}

TEST(KOfNShard, WhoIsAbsentIsNotWaitedFor) {
  KOfNShard shard(3, 3);
  shard.Push(0, 1);
  shard.Regroup({true, true, false});
  shard.Push(1, 1);
  const ShardOutput output = shard.Push(0, 1);
  ASSERT_TRUE(output.update.has_value());
  shard.ExpectReplay({*output.update});  // a mean of two
}

TEST(KOfNShard, AllChunksOfAPushComeFromOneVersion) {
  KOfNShard shard(2, 1);
  shard.Push(0, 1, 0, 0, 4);
  EXPECT_THAT(RefusalOf(shard.Push(0, 1, 1, 4, 8)),
              StatusIs(StatusCode::kInvalidArgument, "from round 1, its first chunk said 0"));
}

TEST(KOfNShard, AWaitThatExpiresNamesWhoCouldStillPush) {
  KOfNShard shard(4, 3, /*apply_late=*/false, /*steps=*/5);
  shard.Push(1, 1);
  shard.Pull(1, 1);
  shard.Push(3, 1, 0, 0, 2);
  shard.now_ns = 400 * kNsPerMs;
  const ShardOutput expired = shard.Tick();
  EXPECT_EQ(BlamedBy(RefusalOf(expired)),
            (std::vector<std::string>{"worker 0", "worker 2", "worker 3"}));
  EXPECT_THAT(RefusalOf(shard.Push(0, 1)), StatusIs(StatusCode::kDeadlineExceeded, "worker 3 (2"));
}

// What was kept of the half push had its round, so that the step was refused for good.
TEST(KOfNShard, AHalfPushThatBeginsAnewMayBeOfALaterRound) {
  KOfNShard shard(2, 1);
  shard.Push(1, 1, /*base=*/0, 0, 4);
  EXPECT_TRUE(shard.Push(0, 1).update.has_value());
  shard.Attach(1);
  EXPECT_THAT(RefusalOf(shard.Push(1, 1, /*base=*/1, 0, 4)), IsOk());
  const ShardOutput output = shard.Push(1, 1, /*base=*/1, 4, 8);
  ASSERT_TRUE(output.update.has_value());
  EXPECT_TRUE(output.update->late.empty());
}

}  // namespace
}  // namespace lockstep
