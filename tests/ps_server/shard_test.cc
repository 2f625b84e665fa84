#include "ps_server/core/shard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kCount = 8;
constexpr int32_t kShard = 3;
constexpr uint64_t kSeed = 5;
const OptimizerOptions kSgd = {.learning_rate = 0.1F, .momentum = 0.9F, .divisor = 2.0F};

ShardOptions Options(int32_t workers) {
  return {.rules = {.optimizer = kSgd},
          .shard = kShard,
          .range = WholeTensor(kCount),
          .world_size = workers,
          .staged_bytes_max = 1 << 20,
          .sync_timeout_ms = 400};
}

// A shard with its workers attached and, unless said otherwise, its start values.
class ShardOf {
 public:
  explicit ShardOf(int32_t workers, bool init = true) : shard_(*Shard::Create(Options(workers))) {
    for (int32_t w = 0; w < workers; ++w) EXPECT_TRUE(Attach(w).refusals.empty());
    if (init) {
      EXPECT_TRUE(Init(StartValues(kSeed, kCount)).refusals.empty());
    }
  }

  ShardOutput Attach(int32_t worker, int64_t incarnation = 1) {
    return shard_.Handle(AttachEvent{worker, incarnation}, now_ns);
  }
  ShardOutput Init(const std::vector<float>& values, int32_t worker = 0) {
    const std::vector<Bytes> pieces = {std::as_bytes(std::span(values))};
    return shard_.Handle(InitEvent{{worker, 1, 0, kShard}, {0, kCount, pieces}}, now_ns);
  }
  // Elements [begin, end) of the worker's gradients of `step`.
  ShardOutput Push(int32_t worker, int64_t step, int64_t begin = 0, int64_t end = kCount,
                   int64_t incarnation = 1) {
    const std::vector<float> gradients = Gradients(kSeed, worker, step, kCount);
    const auto part =
        std::span(gradients).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const std::vector<Bytes> pieces = {std::as_bytes(part)};
    return shard_.Handle(PushEvent{{worker, incarnation, step, kShard}, {begin, kCount, pieces}},
                         now_ns);
  }
  ShardOutput Pull(int32_t worker, int64_t step) {
    return shard_.Handle(PullEvent{{worker, 1, step, kShard}}, now_ns);
  }
  ShardOutput Tick() { return shard_.Handle(TickEvent{}, now_ns); }
  Shard& shard() { return shard_; }

  int64_t now_ns = 0;

 private:
  Shard shard_;
};

absl::Status RefusalOf(const ShardOutput& output) {
  return output.refusals.empty() ? absl::OkStatus() : output.refusals[0].status;
}

TEST(Shard, APushIsAppliedWhenTheLastWorkerIsComplete) {
  ShardOf shard(2);
  EXPECT_FALSE(shard.Push(1, 1).update.has_value());
  shard.now_ns = 70;
  EXPECT_FALSE(shard.Push(0, 1, 4, 8).update.has_value());
  EXPECT_EQ(shard.shard().version(), 0);
  EXPECT_TRUE(SameBits(*shard.shard().parameters(), StartValues(kSeed, kCount)));
  shard.now_ns = 100;
  const ShardOutput last = shard.Push(0, 1, 0, 4);
  ASSERT_TRUE(last.update.has_value());
  EXPECT_EQ(last.update->step, 1);
  EXPECT_EQ(last.update->version, 1);
  EXPECT_EQ(last.update->wait_ns, 100);
  EXPECT_FALSE(last.update->worker.has_value());
  EXPECT_FALSE(last.update->staleness.has_value());
  ASSERT_EQ(last.update->pushes.size(), 2U);
  EXPECT_EQ(last.update->pushes[0].worker, 0);
  EXPECT_EQ(last.update->pushes[0].start_ns, 70);
  EXPECT_EQ(last.update->pushes[0].end_ns, 100);
  EXPECT_EQ(last.update->pushes[1].start_ns, 0);
  EXPECT_EQ(last.update->pushes[1].end_ns, 0);
  EXPECT_TRUE(SameBits(*shard.shard().parameters(), ReferenceRun(kSeed, 2, 1, kCount, kSgd)[1]));
}

TEST(Shard, APullWaitsForItsVersion) {
  ShardOf shard(2);
  EXPECT_EQ(shard.Pull(0, 0).replies.size(), 1U);
  shard.Push(0, 1);
  EXPECT_TRUE(shard.Pull(0, 1).replies.empty());
  const ShardOutput output = shard.Push(1, 1);
  ASSERT_EQ(output.replies.size(), 1U);
  EXPECT_EQ(output.replies[0].worker, 0);
  EXPECT_EQ(output.replies[0].version, 1);
  EXPECT_EQ(shard.Pull(1, 1).replies.size(), 1U);
}

TEST(Shard, ADuplicateIsCountedAndNeverAppliedTwice) {
  ShardOf shard(2);
  shard.Push(0, 1, 0, 4);
  EXPECT_THAT(RefusalOf(shard.Push(0, 1, 0, 4)), IsOk());  // staged already
  EXPECT_THAT(RefusalOf(shard.Push(0, 1, 1, 3)), IsOk());
  shard.Push(0, 1, 4, 8);
  EXPECT_THAT(RefusalOf(shard.Push(0, 1)),
              IsOk());  // staged completely: the barrier counts identities
  EXPECT_EQ(shard.shard().version(), 0);
  EXPECT_EQ(shard.shard().duplicates(), 3);
  shard.Push(1, 1);
  EXPECT_THAT(RefusalOf(shard.Push(0, 1)), IsOk());  // applied already
  EXPECT_EQ(shard.shard().duplicates(), 4);
  EXPECT_EQ(shard.shard().last_step(0), 1);
  shard.Push(1, 2);
  EXPECT_EQ(shard.shard().version(), 1);  // the repeated step 1 didn't count as worker 0's step 2
  shard.Push(0, 2);
  EXPECT_TRUE(SameBits(*shard.shard().parameters(), ReferenceRun(kSeed, 2, 2, kCount, kSgd)[2]));
}

// BytePS has one buffer for a key, so a fast worker overwrites what a slow one has not pulled yet:
// wrong sums in 11 of 14 runs. Here the reply of version 1 is still being sent when version 2 is
// applied.
TEST(Shard, AReplyThatIsSentLateIsStillItsVersion) {
  ShardOf shard(2);
  const auto reference = ReferenceRun(kSeed, 2, 2, kCount, kSgd);
  shard.Push(0, 1);
  shard.Push(1, 1);
  const ShardOutput slow = shard.Pull(1, 1);
  ASSERT_EQ(slow.replies.size(), 1U);
  shard.Push(0, 2);
  shard.Push(1, 2);
  EXPECT_EQ(shard.shard().version(), 2);
  EXPECT_TRUE(SameBits(*slow.replies[0].parameters, reference[1]));
  EXPECT_TRUE(SameBits(*shard.shard().parameters(), reference[2]));
}

// Of the two last versions; a third buffer would cost a page fault for each page of each step.
TEST(Shard, WithNoReplyHeldUpdatesTakeTwoBuffersInTurn) {
  ShardOf shard(1);
  const float* version_0 = shard.shard().parameters()->data();
  shard.Push(0, 1);
  const float* version_1 = shard.shard().parameters()->data();
  EXPECT_NE(version_1, version_0);
  shard.Push(0, 2);
  EXPECT_EQ(shard.shard().parameters()->data(), version_0);
  shard.Push(0, 3);
  EXPECT_EQ(shard.shard().parameters()->data(), version_1);
}

// What came on the old stream was kept: half a push of one gradient and half of another.
TEST(Shard, AReattachedWorkerBeginsItsUnfinishedPushAnew) {
  ShardOf shard(2);
  shard.Push(0, 1, 0, 4);
  shard.Attach(0);
  shard.Push(1, 1);
  EXPECT_FALSE(shard.Push(0, 1, 4, 8).update.has_value());
  EXPECT_EQ(shard.shard().version(), 0);
  EXPECT_TRUE(shard.Push(0, 1, 0, 4).update.has_value());
  EXPECT_EQ(shard.shard().duplicates(), 0);
  EXPECT_TRUE(SameBits(*shard.shard().parameters(), ReferenceRun(kSeed, 2, 1, kCount, kSgd)[1]));
}

TEST(Shard, AReattachedWorkersFinishedPushStays) {
  ShardOf shard(2);
  shard.Push(0, 1);
  shard.Attach(0);
  EXPECT_THAT(RefusalOf(shard.Push(0, 1)), IsOk());
  EXPECT_EQ(shard.shard().duplicates(), 1);
  shard.Push(1, 1);
  EXPECT_EQ(shard.shard().version(), 1);
}

TEST(Shard, ANewIncarnationDiscardsWhatTheOldOneStaged) {
  ShardOf shard(2);
  shard.Push(0, 1);
  shard.Attach(0, 2);
  shard.Push(1, 1);
  EXPECT_EQ(shard.shard().version(), 0);
  shard.Push(0, 1, 0, kCount, 2);
  EXPECT_EQ(shard.shard().version(), 1);
}

TEST(Shard, AnOldIncarnationIsRefused) {
  ShardOf shard(2);
  shard.Attach(0, 7);
  EXPECT_THAT(RefusalOf(shard.Push(0, 1)),
              StatusIs(StatusCode::kFailedPrecondition, "incarnation 1, attached is 7"));
  EXPECT_THAT(RefusalOf(shard.Attach(0, 6)),
              StatusIs(StatusCode::kFailedPrecondition, "incarnation 6 is older than 7"));
}

TEST(Shard, RefusesWhatDoesNotFit) {
  ShardOf shard(2);
  EXPECT_THAT(RefusalOf(shard.Push(0, 2)),
              StatusIs(StatusCode::kFailedPrecondition, "worker 0 pushes step 2, expected 1"));
  EXPECT_THAT(RefusalOf(shard.Push(0, 0)), StatusIs(StatusCode::kFailedPrecondition, "step 0"));
  EXPECT_THAT(RefusalOf(shard.Pull(0, 2)),
              StatusIs(StatusCode::kInvalidArgument, "pulls step 2, its last applied one is 0"));
  EXPECT_THAT(RefusalOf(shard.Pull(2, 0)), StatusIs(StatusCode::kInvalidArgument, "worker 2"));
  EXPECT_THAT(RefusalOf(shard.Attach(-1)), StatusIs(StatusCode::kInvalidArgument, "worker -1"));
  EXPECT_THAT(RefusalOf(shard.Init(StartValues(1, kCount), 1)),
              StatusIs(StatusCode::kInvalidArgument, "only worker 0"));
  shard.Push(0, 1, 2, 4);
  EXPECT_THAT(RefusalOf(shard.Push(0, 1, 3, 6)),
              StatusIs(StatusCode::kInvalidArgument, "[3, 6) overlaps [2, 4)"));
  EXPECT_THAT(RefusalOf(shard.Push(0, 1, 0, 3)),
              StatusIs(StatusCode::kInvalidArgument, "overlaps"));
  EXPECT_EQ(shard.shard().version(), 0);
}

TEST(Shard, RefusesChunksOfAnotherShape) {
  ShardOf shard(1);
  const std::vector<std::byte> bytes(64);
  struct Row {
    int64_t offset, total;
    size_t payload_bytes;
  };
  for (const Row& row : {Row{0, 7, 28}, Row{0, 8, 3}, Row{0, 8, 0}, Row{8, 8, 4}, Row{-1, 8, 4},
                         Row{7, 8, 8}, Row{INT64_MAX, 8, 4}}) {
    const std::vector<Bytes> pieces = {Bytes(bytes).first(row.payload_bytes)};
    const PushEvent push{{0, 1, 1, kShard}, {row.offset, row.total, pieces}};
    EXPECT_THAT(RefusalOf(shard.shard().Handle(push, 0)),
                StatusIs(StatusCode::kInvalidArgument, "does not fit a shard of 8 elements"))
        << row.offset << " " << row.total << " " << row.payload_bytes;
  }
  const std::vector<Bytes> one = {Bytes(bytes).first(4)};
  EXPECT_THAT(RefusalOf(shard.shard().Handle(PushEvent{{0, 1, 1, kShard + 1}, {0, 8, one}}, 0)),
              StatusIs(StatusCode::kInvalidArgument, "speaks to shard 4, this is shard 3"));
}

TEST(Shard, RefusesAPushBeforeTheStartValues) {
  ShardOf shard(2, /*init=*/false);
  EXPECT_THAT(RefusalOf(shard.Push(1, 1)),
              StatusIs(StatusCode::kFailedPrecondition, "worker 1 pushes step 1 before"));
}

TEST(Shard, RepeatedStartValuesAreIgnored) {
  ShardOf shard(1);
  EXPECT_THAT(RefusalOf(shard.Init(std::vector<float>(kCount, 9.0F))), IsOk());
  EXPECT_EQ(shard.shard().duplicates(), 1);
  EXPECT_TRUE(SameBits(*shard.shard().parameters(), StartValues(kSeed, kCount)));
}

TEST(Shard, StagedBytesHaveABound) {
  ShardOptions options = Options(3);
  options.staged_bytes_max = 3 * kCount * 4;
  EXPECT_THAT(Shard::Create(options), IsOk());
  options.staged_bytes_max -= 1;
  EXPECT_THAT(Shard::Create(options),
              StatusIs(StatusCode::kResourceExhausted, "staged_bytes_max 95"));
  options.range = WholeTensor(INT64_MAX / 2);
  EXPECT_THAT(Shard::Create(options), StatusIs(StatusCode::kResourceExhausted, "staged_bytes_max"));
}

TEST(Shard, RefusesOptionsThatMakeNoSenseTogether) {
  ShardOptions options = Options(2);
  options.rules.mode = PsMode::kAsync;
  EXPECT_THAT(Shard::Create(options),
              StatusIs(StatusCode::kInvalidArgument, "mode ASYNC with a sum divided by 2"));
  options.rules.optimizer.divisor = 1;
  EXPECT_THAT(Shard::Create(options), IsOk());
  options.rules.order = PsOrder::kExact;
  EXPECT_THAT(Shard::Create(options), StatusIs(StatusCode::kInvalidArgument, "no order of sums"));
  options = Options(2);
  options.range.parts[0].count -= 1;
  EXPECT_THAT(Shard::Create(options),
              StatusIs(StatusCode::kInvalidArgument, "8 elements has 7 in its tensors"));
}

TEST(Shard, ScatteredChunksHaveABound) {
  ShardOptions options = Options(1);
  options.range = WholeTensor(10'000);
  Shard shard = *Shard::Create(options);
  shard.Handle(AttachEvent{0, 1}, 0);
  const std::vector<float> values(10'000);
  std::vector<Bytes> pieces = {std::as_bytes(std::span(values))};
  shard.Handle(InitEvent{{0, 1, 0, kShard}, {0, options.range.count, pieces}}, 0);
  pieces = {std::as_bytes(std::span(values)).first(4)};
  absl::Status status;
  for (int64_t i = 0; i < options.range.count && status.ok(); i += 2) {
    status =
        RefusalOf(shard.Handle(PushEvent{{0, 1, 1, kShard}, {i, options.range.count, pieces}}, 0));
  }
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted, "4096 scattered chunks"));
}

TEST(Shard, ALatePushIsNamedAndEveryoneHearsTheSame) {
  ShardOf shard(4);
  shard.Push(0, 1);
  shard.Pull(0, 1);
  shard.Push(1, 1, 0, 2);
  shard.now_ns = 100 * kNsPerMs;
  shard.Push(3, 1);
  shard.Pull(3, 1);
  shard.now_ns = 399 * kNsPerMs;
  EXPECT_TRUE(shard.Tick().refusals.empty());
  shard.now_ns = 400 * kNsPerMs;
  const ShardOutput expired = shard.Tick();
  ASSERT_EQ(expired.refusals.size(), 2U);
  for (const ShardRefusal& refusal : expired.refusals) {
    EXPECT_THAT(
        refusal.status,
        StatusIs(StatusCode::kDeadlineExceeded,
                 "shard 3 waited 400 ms for the push of step 1 of worker 1 (2 of 8 elements are "
                 "here), worker 2 (0 of 8 elements are here)"));
  }
  EXPECT_EQ(expired.refusals[1].worker, 3);
  EXPECT_TRUE(shard.Tick().refusals.empty());
  // Too late: the others have given up, so this worker must hear of it, too.
  EXPECT_EQ(RefusalOf(shard.Push(2, 1)), expired.refusals[0].status);
  EXPECT_EQ(shard.shard().version(), 0);
}

TEST(Shard, MissingStartValuesAreNamed) {
  ShardOf shard(2, /*init=*/false);
  EXPECT_TRUE(shard.Pull(1, 0).replies.empty());
  shard.now_ns = 500 * kNsPerMs;
  EXPECT_THAT(RefusalOf(shard.Tick()),
              StatusIs(StatusCode::kDeadlineExceeded, "the start values of worker 0: 0 of 8"));
}

TEST(Shard, AWorkerThatNeverCameIsNamed) {
  Shard shard = *Shard::Create(Options(2));
  shard.Handle(AttachEvent{0, 1}, 0);
  const std::vector<float> values(kCount);
  const std::vector<Bytes> pieces = {std::as_bytes(std::span(values))};
  shard.Handle(InitEvent{{0, 1, 0, kShard}, {0, kCount, pieces}}, 0);
  shard.Handle(PushEvent{{0, 1, 1, kShard}, {0, kCount, pieces}}, 0);
  EXPECT_EQ(shard.version(), 0);
  shard.Handle(PullEvent{{0, 1, 1, kShard}}, 0);
  EXPECT_THAT(RefusalOf(shard.Handle(TickEvent{}, 400 * kNsPerMs)),
              StatusIs(StatusCode::kDeadlineExceeded, "worker 1 (not connected)"));
}

}  // namespace
}  // namespace lockstep
