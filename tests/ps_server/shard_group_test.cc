// What a shard does when its group changes (a worker replaced, or gone for good), in modes where
// all read one version a step; sums without an optimizer; and what travels narrower than f32.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/numeric/convert.h"
#include "tests/ps_server/one_shard.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kCount = 9;
constexpr uint64_t kSeed = 17;
constexpr OptimizerOptions kSgd = {.learning_rate = 0.1F, .momentum = 0.9F};

PsRules SyncRules(int32_t workers) {
  PsRules rules = {.optimizer = kSgd};
  rules.optimizer.divisor = static_cast<float>(workers);
  return rules;
}

class SyncShard : public OneShard {
 public:
  explicit SyncShard(int32_t workers)
      : OneShard(OneShardOptions(SyncRules(workers), workers, kCount), kSeed), workers_(workers) {}

  void Step(int64_t step) {
    for (int32_t w = 0; w < workers_; ++w) Push(w, step);
  }

 private:
  const int32_t workers_;
};

// A worker that was replaced when other shards lacked its step 3 makes it again, from version 2:
// its gradients have the same bits, and here they are a duplicate.
TEST(SyncGroup, AReplacedWorkerReadsTheVersionBefore) {
  SyncShard shard(2);
  const auto reference = ReferenceRun(kSeed, 2, 4, kCount, shard.options().rules.optimizer);
  for (int64_t step = 1; step <= 3; ++step) shard.Step(step);
  shard.Regroup({true, true});
  shard.Attach(1, 2);
  const ShardOutput again = shard.Pull(1, 2, 2);
  ASSERT_EQ(again.replies.size(), 1U);
  EXPECT_EQ(again.replies[0].version, 2);
  EXPECT_EQ(again.replies[0].least_step, 2);
  EXPECT_TRUE(SameBits(*again.replies[0].parameters, reference[2]));
  shard.Push(1, 3, 0, 0, -1, 2);
  EXPECT_EQ(shard.shard().duplicates(), 1);
  EXPECT_EQ(shard.Pull(1, 3, 2).replies[0].version, 3);
  shard.Push(0, 4);
  shard.Push(1, 4, 0, 0, -1, 2);
  EXPECT_TRUE(SameBits(*shard.shard().parameters(), reference[4]));
  EXPECT_TRUE(SameBits(*again.replies[0].parameters, reference[2]));
}

TEST(SyncGroup, WhatIsGoneIsRefused) {
  SyncShard shard(2);
  for (int64_t step = 1; step <= 3; ++step) shard.Step(step);
  EXPECT_THAT(RefusalOf(shard.Pull(1, 1)),
              StatusIs(StatusCode::kFailedPrecondition,
                       "worker 1 pulls step 1, whose parameters are gone; the shard is at 3"));
  EXPECT_EQ(shard.Pull(1, 2).replies.size(), 1U);
}

TEST(SyncGroup, ANewGroupDropsWhatIsStagedAndWaitedFor) {
  SyncShard shard(2);
  shard.Push(0, 1);
  shard.Pull(0, 1);
  shard.Regroup({true, true});
  EXPECT_FALSE(shard.Push(1, 1).update.has_value());
  const ShardOutput output = shard.Push(0, 1);
  EXPECT_TRUE(output.update.has_value());
  EXPECT_TRUE(output.replies.empty());
  EXPECT_EQ(shard.shard().duplicates(), 0);
}

// SHRINK: the mean is then over those who are left.
TEST(SyncGroup, TheMeanIsOverThoseWhoArePresent) {
  SyncShard shard(3);
  shard.Step(1);
  shard.Regroup({true, false, true});
  EXPECT_FALSE(shard.Push(0, 2).update.has_value());
  const ShardOutput output = shard.Push(2, 2);
  ASSERT_TRUE(output.update.has_value());
  std::vector<ShardUpdate> updates(2);
  for (int32_t w = 0; w < 3; ++w) updates[0].ids.push_back({w, 1, 1, 0});
  updates[0].version = 1;
  updates[1] = *output.update;
  EXPECT_TRUE(SameBits(*shard.shard().parameters(),
                       Replay(kSeed, updates, kCount, kSgd, /*mean=*/true).versions[2]));
  EXPECT_EQ(shard.Pull(0, 2).replies[0].least_step, 2);
}

TEST(SyncGroup, WhoComesBackJoinsTheBarrierWhereItIs) {
  SyncShard shard(2);
  shard.Step(1);
  shard.Regroup({true, false});
  EXPECT_TRUE(shard.Push(0, 2).update.has_value());
  shard.Regroup({true, true});
  EXPECT_EQ(shard.shard().last_step(1), 2);
  EXPECT_EQ(shard.Pull(1, 2).replies.size(), 1U);
  shard.Step(3);
  EXPECT_EQ(shard.shard().version(), 3);
}

TEST(SyncGroup, ASumIsSaidEvenOverOne) {
  ShardOptions options = OneShardOptions(SyncRules(2), 2, kCount);
  options.rules.optimizer.divisor = 1.0F;  // SUM
  OneShard shard(options, kSeed);
  shard.Regroup({true, false});
  const ShardOutput output = shard.Push(0, 1);
  EXPECT_TRUE(SameBits(*shard.shard().parameters(),
                       Replay(kSeed, {*output.update}, kCount, kSgd, /*mean=*/false).versions[1]));
}

TEST(SyncGroup, ADeadShardGoesOnInANewGroup) {
  SyncShard shard(2);
  shard.Pull(0, 1);
  shard.now_ns = 400 * kNsPerMs;
  EXPECT_FALSE(shard.Tick().refusals.empty());
  EXPECT_THAT(RefusalOf(shard.Push(0, 1)), StatusIs(StatusCode::kDeadlineExceeded, "waited"));
  shard.Regroup({true, true});
  shard.Step(1);
  EXPECT_EQ(shard.shard().version(), 1);
}

TEST(SyncGroup, AGroupOfAnotherSizeIsRefused) {
  SyncShard shard(2);
  EXPECT_THAT(RefusalOf(shard.Handle(RegroupEvent{{true}})),
              StatusIs(StatusCode::kInvalidArgument, "a group of 1 workers, expected 2"));
}

// Until a shard is initialized, start values that came in part are not trusted either.
TEST(SyncGroup, ANewGroupSendsTheStartValuesAgain) {
  const ShardOptions options = OneShardOptions(SyncRules(2), 2, kCount);
  Shard shard = *Shard::Create(options);
  const std::vector<float> values = StartValues(kSeed, kCount);
  const auto init = [&](int64_t begin, int64_t end) {
    const std::vector<Bytes> pieces = {std::as_bytes(
        std::span(values).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)))};
    shard.Handle(InitEvent{{0, 1, 0, 0}, {begin, kCount, pieces}}, 0);
  };
  shard.Handle(AttachEvent{0, 1}, 0);
  init(0, 5);
  shard.Handle(RegroupEvent{{true, true}}, 0);
  shard.Handle(AttachEvent{0, 1}, 0);
  init(5, kCount);
  EXPECT_FALSE(shard.initialized());
  init(0, 5);
  EXPECT_TRUE(shard.initialized());
}

// Workers that have the optimizer: the reply is the mean of the gradients, the start values before.
TEST(SumOnly, AReplyIsTheMean) {
  for (const PsOrder order : {PsOrder::kRank, PsOrder::kExact}) {
    ShardOptions options = OneShardOptions(SyncRules(2), 2, kCount);
    options.rules.sum_only = true;
    options.rules.order = order;
    OneShard shard(options, kSeed);
    EXPECT_TRUE(SameBits(*shard.Pull(1, 0).replies[0].parameters, StartValues(kSeed, kCount)));
    for (int64_t step = 1; step <= 3; ++step) {
      const std::vector<std::vector<float>> gradients = {Gradients(kSeed, 0, step, kCount),
                                                         Gradients(kSeed, 1, step, kCount)};
      std::vector<float> mean = RankOrderSum(gradients);
      for (float& value : mean) value /= 2.0F;
      if (order == PsOrder::kExact) mean = ExactSum(gradients, {kCount}, 2.0F);
      shard.Push(0, step);
      shard.Push(1, step);
      const ShardOutput output = shard.Pull(0, step);
      EXPECT_EQ(output.replies[0].version, step);
      EXPECT_TRUE(SameBits(*output.replies[0].parameters, mean)) << step;
    }
  }
}

class WireDtypes : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Narrow, WireDtypes,
                         testing::Values(Dtype::kF32, Dtype::kF16, Dtype::kBf16),
                         [](const auto& row) { return NameOf(row.param); });

std::vector<std::byte> Narrow(Dtype wire, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(SizeOf(wire)));
  if (wire == Dtype::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    Convert(Dtype::kF32, values.data(), wire, bytes.data(), static_cast<int64_t>(values.size()));
  }
  return bytes;
}
std::vector<float> Rounded(Dtype wire, const std::vector<float>& values) {
  if (wire == Dtype::kF32) return values;
  std::vector<float> rounded(values.size());
  Convert(wire, Narrow(wire, values).data(), Dtype::kF32, rounded.data(),
          static_cast<int64_t>(values.size()));
  return rounded;
}

// Chunks of any elements, cut into pieces at any byte, are widened to what was rounded; the sum is
// of f32.
TEST_P(WireDtypes, PushesAreWidenedHoweverTheyAreCut) {
  const Dtype wire = GetParam();
  const auto element_bytes = static_cast<size_t>(SizeOf(wire));
  ShardOptions options = OneShardOptions(SyncRules(2), 2, kCount);
  options.rules.wire_dtype = wire;
  for (size_t piece_bytes = 1; piece_bytes <= 7; ++piece_bytes) {
    Shard shard = *Shard::Create(options);
    const auto send = [&](int32_t worker, int64_t step, const std::vector<float>& values) {
      const std::vector<std::byte> bytes = Narrow(wire, values);
      for (const auto& [begin, end] : {std::pair<size_t, size_t>{4, 9}, {0, 1}, {1, 4}}) {
        const Bytes chunk =
            Bytes(bytes).subspan(begin * element_bytes, (end - begin) * element_bytes);
        std::vector<Bytes> pieces = {Bytes()};
        for (size_t at = 0; at < chunk.size(); at += piece_bytes) {
          pieces.push_back(chunk.subspan(at, std::min(piece_bytes, chunk.size() - at)));
        }
        const UpdateId id = {worker, 1, step, 0};
        const ShardChunk in_shard = {static_cast<int64_t>(begin), kCount, pieces};
        const ShardOutput output = step == 0 ? shard.Handle(InitEvent{id, in_shard}, 0)
                                             : shard.Handle(PushEvent{id, in_shard}, 0);
        EXPECT_THAT(RefusalOf(output), IsOk());
      }
    };
    shard.Handle(AttachEvent{0, 1}, 0);
    shard.Handle(AttachEvent{1, 1}, 0);
    std::vector<float> expected = Rounded(wire, StartValues(kSeed, kCount));
    send(0, 0, StartValues(kSeed, kCount));
    ASSERT_TRUE(shard.initialized());
    EXPECT_TRUE(SameBits(*shard.parameters(), expected));
    std::vector<std::vector<float>> gradients;
    for (int32_t w = 0; w < 2; ++w) {
      send(w, 1, Gradients(kSeed, w, 1, kCount));
      gradients.push_back(Rounded(wire, Gradients(kSeed, w, 1, kCount)));
    }
    std::vector<float> velocity(kCount, 0.0F);
    ReferenceStep(RankOrderSum(gradients), options.rules.optimizer, &velocity, &expected);
    EXPECT_TRUE(SameBits(*shard.parameters(), expected)) << piece_bytes;
  }
}

TEST_P(WireDtypes, AChunkIsWholeElementsOfTheType) {
  ShardOptions options = OneShardOptions(SyncRules(1), 1, kCount);
  options.rules.wire_dtype = GetParam();
  OneShard shard(options, kSeed);
  const std::vector<std::byte> bytes(64);
  const int64_t element_bytes = SizeOf(GetParam());
  for (const int64_t size : {element_bytes - 1, element_bytes * (kCount + 1)}) {
    const std::vector<Bytes> pieces = {Bytes(bytes).first(static_cast<size_t>(size))};
    EXPECT_THAT(RefusalOf(shard.Handle(PushEvent{{0, 1, 1, 0}, {0, kCount, pieces}})),
                StatusIs(StatusCode::kInvalidArgument,
                         absl::StrCat("9 elements of ", element_bytes, " bytes")));
  }
}

}  // namespace
}  // namespace lockstep
