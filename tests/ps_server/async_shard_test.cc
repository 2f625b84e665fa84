// Mode ASYNC of the shard, one event at a time.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "ps_server/core/shard.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kCount = 8;
constexpr uint64_t kSeed = 5;
const OptimizerOptions kSgd = {.learning_rate = 0.1F, .momentum = 0.9F, .divisor = 1.0F};

class AsyncShard : public testing::Test {
 protected:
  AsyncShard()
      : shard_(*Shard::Create({.rules = {.mode = PsMode::kAsync, .optimizer = kSgd},
                               .range = WholeTensor(kCount),
                               .world_size = 3,
                               .staged_bytes_max = 1 << 20,
                               .sync_timeout_ms = 400})) {
    for (int32_t w = 0; w < 3; ++w) Attach(w, 1);
  }

  ShardOutput Attach(int32_t worker, int64_t incarnation) {
    return shard_.Handle(AttachEvent{worker, incarnation}, now_ns_);
  }
  ShardOutput Init() {
    const std::vector<float> values = StartValues(kSeed, kCount);
    const std::vector<Bytes> pieces = {std::as_bytes(std::span(values))};
    return shard_.Handle(InitEvent{{0, 1, 0, 0}, {0, kCount, pieces}}, now_ns_);
  }
  ShardOutput Push(int32_t worker, int64_t step, int64_t begin = 0, int64_t end = kCount,
                   int64_t incarnation = 1) {
    const std::vector<float> gradients = Gradients(kSeed, worker, step, kCount);
    const auto part =
        std::span(gradients).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const std::vector<Bytes> pieces = {std::as_bytes(part)};
    ShardOutput output =
        shard_.Handle(PushEvent{{worker, incarnation, step, 0}, {begin, kCount, pieces}}, now_ns_);
    if (output.update.has_value()) applied_.emplace_back(worker, step);
    return output;
  }
  ShardOutput Pull(int32_t worker, int64_t step, int64_t incarnation = 1) {
    return shard_.Handle(PullEvent{{worker, incarnation, step, 0}}, now_ns_);
  }
  ShardOutput Tick() { return shard_.Handle(TickEvent{}, now_ns_); }
  void ExpectReplay() {
    EXPECT_TRUE(SameBits(*shard_.parameters(), ReferenceReplay(kSeed, applied_, kCount, kSgd)));
  }

  int64_t now_ns_ = 0;
  Shard shard_;
  std::vector<std::pair<int32_t, int64_t>> applied_;
};

absl::Status RefusalOf(const ShardOutput& output) {
  return output.refusals.empty() ? absl::OkStatus() : output.refusals[0].status;
}

TEST_F(AsyncShard, APushIsAppliedAtOnceAndAlone) {
  Init();
  now_ns_ = 10;
  EXPECT_FALSE(Push(2, 1, 0, 3).update.has_value());
  now_ns_ = 30;
  const ShardOutput output = Push(2, 1, 3, 8);
  ASSERT_TRUE(output.update.has_value());
  EXPECT_EQ(output.update->worker, 2);
  EXPECT_EQ(output.update->step, 1);
  EXPECT_EQ(output.update->version, 1);
  EXPECT_EQ(output.update->wait_ns, 20);
  ASSERT_EQ(output.update->pushes.size(), 1U);
  EXPECT_EQ(output.update->pushes[0].worker, 2);
  EXPECT_EQ(output.update->pushes[0].start_ns, 10);
  EXPECT_EQ(output.update->pushes[0].end_ns, 30);
  EXPECT_EQ(Push(2, 2).update->version, 2);
  EXPECT_EQ(Push(0, 1).update->version, 3);
  EXPECT_EQ(shard_.last_step(2), 2);
  EXPECT_EQ(shard_.last_step(1), 0);
  ExpectReplay();
}

TEST_F(AsyncShard, APullWaitsForTheOwnPushAndForNobodyElse) {
  EXPECT_TRUE(Pull(1, 0).replies.empty());
  EXPECT_TRUE(Pull(0, 0).replies.empty());
  EXPECT_EQ(Init().replies.size(), 2U);
  EXPECT_EQ(Pull(2, 0).replies.size(), 1U);
  EXPECT_TRUE(Pull(1, 1).replies.empty());
  EXPECT_TRUE(Push(0, 1).replies.empty());
  EXPECT_TRUE(Push(1, 1, 0, 4).replies.empty());
  const ShardOutput output = Push(1, 1, 4, 8);
  ASSERT_EQ(output.replies.size(), 1U);
  EXPECT_EQ(output.replies[0].worker, 1);
  EXPECT_EQ(output.replies[0].step, 1);
  EXPECT_EQ(output.replies[0].version, 2);  // with worker 0's, as they stand
  ExpectReplay();
  EXPECT_TRUE(SameBits(*output.replies[0].parameters, *shard_.parameters()));
}

// Else replicas would differ at step 0 by how long each took to start.
TEST_F(AsyncShard, WhoeverStartsLateStartsFromTheStartValues) {
  Init();
  Push(0, 1);
  Push(1, 1);
  Push(0, 2);
  const ShardOutput late = Pull(2, 0);
  ASSERT_EQ(late.replies.size(), 1U);
  EXPECT_EQ(late.replies[0].version, 0);
  EXPECT_TRUE(SameBits(*late.replies[0].parameters, StartValues(kSeed, kCount)));
  EXPECT_EQ(Pull(0, 0).replies[0].version, 3);  // a pull never goes back
  const ShardOutput first = Push(2, 1);
  EXPECT_EQ(first.update->staleness->update, 3);
  EXPECT_EQ(first.update->staleness->clock, 0);
  EXPECT_EQ(Pull(2, 1).replies[0].version, 4);
  ExpectReplay();
}

TEST_F(AsyncShard, ADuplicateIsCountedAndNeverAppliedTwice) {
  Init();
  Push(0, 1, 0, 4);
  EXPECT_FALSE(Push(0, 1, 0, 4).update.has_value());
  EXPECT_TRUE(Push(0, 1, 4, 8).update.has_value());
  EXPECT_FALSE(Push(0, 1).update.has_value());
  EXPECT_THAT(RefusalOf(Push(0, 1)), IsOk());
  Push(0, 2);
  EXPECT_FALSE(Push(0, 1).update.has_value());
  EXPECT_EQ(shard_.version(), 2);
  EXPECT_EQ(shard_.duplicates(), 4);
  EXPECT_THAT(RefusalOf(Push(0, 4)),
              StatusIs(StatusCode::kFailedPrecondition, "pushes step 4, expected 3"));
  ExpectReplay();
}

TEST_F(AsyncShard, ReattachedAndReplacedWorkersKeepTheirPlace) {
  Init();
  Push(1, 1);
  Push(1, 2, 0, 4);
  Attach(1, 1);
  EXPECT_FALSE(Push(1, 1).update.has_value());        // sent again to be sure: applied already
  EXPECT_FALSE(Push(1, 2, 4, 8).update.has_value());  // begun anew
  EXPECT_TRUE(Push(1, 2, 0, 4).update.has_value());
  Push(1, 3, 0, 4);
  Attach(1, 7);
  EXPECT_THAT(RefusalOf(Push(1, 3, 4, 8)),
              StatusIs(StatusCode::kFailedPrecondition, "incarnation 1, attached is 7"));
  EXPECT_THAT(RefusalOf(Attach(1, 6)),
              StatusIs(StatusCode::kFailedPrecondition, "incarnation 6 is older than 7"));
  EXPECT_FALSE(Push(1, 3, 4, 8, 7).update.has_value());
  EXPECT_TRUE(Push(1, 3, 0, 4, 7).update.has_value());
  EXPECT_EQ(shard_.version(), 3);
  ExpectReplay();
}

TEST_F(AsyncShard, AReplyThatIsSentLateIsStillItsVersion) {
  Init();
  Push(0, 1);
  const ShardOutput slow = Pull(0, 1);
  ASSERT_EQ(slow.replies.size(), 1U);
  const std::vector<float> version_1 = *slow.replies[0].parameters;
  Push(1, 1);
  Push(2, 1);
  EXPECT_TRUE(SameBits(*slow.replies[0].parameters, version_1));
  ExpectReplay();
}

TEST_F(AsyncShard, AnOwnPushThatNeverCompletesEndsThatWorkerOnly) {
  Init();
  Push(1, 1, 0, 2);
  Pull(1, 1);
  now_ns_ = 399 * kNsPerMs;
  EXPECT_TRUE(Tick().refusals.empty());
  Pull(2, 1);  // its own time has just begun
  now_ns_ = 400 * kNsPerMs;
  const ShardOutput expired = Tick();
  ASSERT_EQ(expired.refusals.size(), 1U);
  EXPECT_EQ(expired.refusals[0].worker, 1);
  EXPECT_THAT(expired.refusals[0].status,
              StatusIs(StatusCode::kDeadlineExceeded,
                       "shard 0 waited 400 ms for the push of step 1 of worker 1 (2 of 8 elements "
                       "are here) (limits.sync_timeout_ms 400)"));
  EXPECT_EQ(BlamedBy(expired.refusals[0].status), std::vector<std::string>{"worker 1"});
  EXPECT_TRUE(Tick().refusals.empty());
  EXPECT_TRUE(Push(0, 1).update.has_value());  // the others go on
  EXPECT_EQ(Push(2, 1).replies.size(), 1U);
}

TEST_F(AsyncShard, MissingStartValuesAreNamed) {
  Pull(2, 0);
  now_ns_ = 400 * kNsPerMs;
  EXPECT_THAT(RefusalOf(Tick()),
              StatusIs(StatusCode::kDeadlineExceeded, "the start values of worker 0: 0 of 8"));
}

TEST_F(AsyncShard, UpdatesCarryTheirStaleness) {
  Init();
  for (int32_t w = 0; w < 3; ++w) Pull(w, 0);
  Push(0, 1);
  now_ns_ = 40;
  Pull(0, 1);
  Push(1, 1);
  Push(2, 1);
  Push(1, 2);
  now_ns_ = 100;
  const ShardOutput output = Push(0, 2);
  ASSERT_TRUE(output.update->staleness.has_value());
  EXPECT_EQ(output.update->staleness->update, 3);
  EXPECT_EQ(output.update->staleness->clock, 1);  // workers 1 and 2 stood at 0
  EXPECT_EQ(output.update->staleness->gap_ns, 40);
  EXPECT_EQ(output.update->staleness->cycle_ns, 100);
}

}  // namespace
}  // namespace lockstep
