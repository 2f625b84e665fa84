// SYNC: the next version is made block by block while its pushes arrive, and nobody sees any of it
// before all of them are whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/ps_server/one_shard.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr uint64_t kSeed = 23;
constexpr int64_t kChunk = 2'000;
constexpr int64_t kCount = 3 * kSumElements + 77;

PsRules Rules(int32_t workers, OptimizerKind kind = OptimizerKind::kSgd) {
  PsRules rules;
  rules.optimizer = {.learning_rate = 0.1F,
                     .momentum = kind == OptimizerKind::kSgd ? 0.9F : 0.0F,
                     .divisor = static_cast<float>(workers),
                     .kind = kind};
  return rules;
}

ShardOptions Options(const PsRules& rules, int32_t workers) {
  ShardOptions options = OneShardOptions(rules, workers, kCount);
  options.staged_bytes_max = int64_t{1} << 30;
  return options;
}

// Two workers' whole push of a step but for the last chunk of worker 1.
void PushAllButOne(OneShard* shard, int64_t step, int64_t incarnation = 1) {
  shard->Push(0, step);
  for (int64_t begin = 0; begin + kChunk < kCount; begin += kChunk) {
    const ShardOutput output = shard->Push(1, step, 0, begin, begin + kChunk, incarnation);
    EXPECT_TRUE(output.refusals.empty());
    EXPECT_FALSE(output.update.has_value());
  }
}
ShardOutput PushLast(OneShard* shard, int64_t step, int64_t incarnation = 1) {
  return shard->Push(1, step, 0, kCount / kChunk * kChunk, kCount, incarnation);
}
void PushStep(OneShard* shard, int64_t step) {
  PushAllButOne(shard, step);
  EXPECT_TRUE(PushLast(shard, step).update.has_value());
}

// Values of its own, for a worker that was replaced and computes something else.
ShardOutput PushValues(OneShard* shard, int32_t worker, int64_t step, int64_t incarnation,
                       const std::vector<float>& values) {
  const std::vector<Bytes> pieces = {std::as_bytes(std::span(values))};
  return shard->Handle(PushEvent{{worker, incarnation, step, 0}, {0, kCount, pieces}});
}

void ExpectSame(const ShardState& a, const ShardState& b) {
  EXPECT_EQ(a.version, b.version);
  EXPECT_TRUE(SameBits(*a.parameters, *b.parameters));
  ASSERT_EQ(a.previous == nullptr, b.previous == nullptr);
  if (a.previous != nullptr) {
    EXPECT_TRUE(SameBits(*a.previous, *b.previous));
  }
  EXPECT_TRUE(SameBits(a.optimizer_state, b.optimizer_state));
}
// Nothing of it is shared with the shard.
ShardState CopyOf(const Shard& shard) {
  ShardState state = shard.Save();
  state.parameters = std::make_shared<std::vector<float>>(*state.parameters);
  if (state.previous != nullptr) {
    state.previous = std::make_shared<std::vector<float>>(*state.previous);
  }
  return state;
}

class Early : public testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, Early,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam),
                         [](const auto& row) -> std::string {
                           return row.param == OptimizerKind::kSgd ? "Sgd" : "Adam";
                         });

TEST_P(Early, ABlockIsMadeOnceEveryWorkersElementsAreHere) {
  const PsRules rules = Rules(2, GetParam());
  OneShard shard(Options(rules, 2), kSeed);
  OneShard at_once(Options(rules, 2), kSeed);
  for (int64_t step = 1; step <= 4; ++step) {
    const std::vector<float> before = *at_once.shard().parameters();
    at_once.Push(0, step);
    EXPECT_TRUE(at_once.Push(1, step).update.has_value());
    shard.Push(0, step, 0, 0, kSumElements + 5);
    EXPECT_EQ(shard.shard().made(), 0);
    shard.Push(1, step, 0, kSumElements, 2 * kSumElements);
    EXPECT_EQ(shard.shard().made(), 0) << "of the second block five elements are here of both";
    shard.Push(0, step, 0, kSumElements + 5, kCount);
    EXPECT_EQ(shard.shard().made(), kSumElements);
    shard.Push(1, step, 0, 0, kSumElements - 1);
    shard.Push(1, step, 0, 2 * kSumElements, kCount);
    EXPECT_EQ(shard.shard().made(), kCount - kSumElements);
    EXPECT_TRUE(SameBits(*shard.shard().parameters(), before));
    EXPECT_TRUE(shard.Push(1, step, 0, kSumElements - 1, kSumElements).update.has_value());
    EXPECT_EQ(shard.shard().made(), 0);
    ExpectSame(shard.shard().Save(), at_once.shard().Save());
  }
  if (GetParam() == OptimizerKind::kSgd) {
    EXPECT_TRUE(SameBits(*shard.shard().parameters(),
                         ReferenceRun(kSeed, 2, 4, kCount, rules.optimizer)[4]));
  }
}

TEST_P(Early, NothingOfAnUnfinishedPushIsSeen) {
  OneShard shard(Options(Rules(2, GetParam()), 2), kSeed);
  for (int64_t step = 1; step <= 3; ++step) PushStep(&shard, step);
  const ShardState before = CopyOf(shard.shard());
  const ShardReply sent_late = shard.Pull(0, 3).replies.at(0);
  PushAllButOne(&shard, 4);
  EXPECT_GT(shard.shard().made(), kCount / 2);
  ExpectSame(shard.shard().Save(), before);
  // Whoever is a step behind still reads the version before.
  const ShardOutput behind = shard.Pull(1, 2);
  ASSERT_EQ(behind.replies.size(), 1U);
  EXPECT_TRUE(SameBits(*behind.replies[0].parameters, *before.previous));
  EXPECT_TRUE(PushLast(&shard, 4).update.has_value());
  EXPECT_TRUE(SameBits(*sent_late.parameters, *before.parameters));
  EXPECT_TRUE(SameBits(*behind.replies[0].parameters, *before.previous));
}

// In a new group a worker may push other values than those that the next version was being made of.
TEST_P(Early, APushThatBeginsAnewLeavesNoTrace) {
  const PsRules rules = Rules(2, GetParam());
  const std::vector<float> other = Gradients(kSeed + 1, 1, 4, kCount);
  OneShard shard(Options(rules, 2), kSeed);
  OneShard undisturbed(Options(rules, 2), kSeed);
  for (int64_t step = 1; step <= 3; ++step) {
    PushStep(&shard, step);
    PushStep(&undisturbed, step);
  }
  PushAllButOne(&shard, 4);
  shard.Regroup({true, true});
  shard.Attach(1, 2);
  EXPECT_EQ(shard.shard().made(), 0);
  shard.Push(0, 4);
  EXPECT_TRUE(PushValues(&shard, 1, 4, 2, other).update.has_value());
  undisturbed.Push(0, 4);
  EXPECT_TRUE(PushValues(&undisturbed, 1, 4, 1, other).update.has_value());
  ExpectSame(shard.shard().Save(), undisturbed.shard().Save());
  PushAllButOne(&shard, 5, 2);
  EXPECT_TRUE(PushLast(&shard, 5, 2).update.has_value());
  PushStep(&undisturbed, 5);
  ExpectSame(shard.shard().Save(), undisturbed.shard().Save());
}

// Within a group the others' bytes are gone: only the same bits may follow.
TEST_P(Early, WhoComesBackWithinAGroupGoesOnOrIsRefused) {
  OneShard shard(Options(Rules(2, GetParam()), 2), kSeed);
  OneShard undisturbed(Options(Rules(2, GetParam()), 2), kSeed);
  PushAllButOne(&shard, 1);
  EXPECT_THAT(RefusalOf(shard.Attach(1, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "worker 1 comes as incarnation 2, and some of what incarnation 1 pushed"));
  EXPECT_THAT(RefusalOf(shard.Attach(1)), IsOk());
  PushAllButOne(&shard, 1);
  EXPECT_TRUE(PushLast(&shard, 1).update.has_value());
  PushStep(&undisturbed, 1);
  ExpectSame(shard.shard().Save(), undisturbed.shard().Save());
}

// Elements of a push that begins anew are counted once, and those of whoever is absent never.
TEST(EarlySum, ABlockIsNotTakenForWhole) {
  OneShard shard(Options(Rules(3), 3), kSeed);
  shard.Push(2, 1, 0, 0, kSumElements);
  shard.Regroup({true, true, false});
  for (int again = 0; again < 2; ++again) {
    shard.Push(0, 1, 0, 0, kSumElements - 1);
    shard.Attach(0);
  }
  shard.Push(2, 1, 0, 0, kSumElements);
  shard.Push(0, 1, 0, 0, kSumElements - 1);
  shard.Push(1, 1, 0, 0, kSumElements);
  EXPECT_EQ(shard.shard().made(), 0);
  shard.Push(0, 1, 0, kSumElements - 1, kSumElements);
  EXPECT_EQ(shard.shard().made(), kSumElements);
}

// Else a large tensor's bytes are staged as a whole before any memory is used again.
TEST(EarlySum, WhatItWasMadeOfIsLetGo) {
  OneShard shard(Options(Rules(2), 2), kSeed);
  const std::vector<float> values(2 * kSumElements, 1.0F);
  const auto sent = std::make_shared<std::vector<float>>(values);
  const std::vector<Bytes> pieces = {std::as_bytes(std::span(*sent))};
  for (int32_t w = 0; w < 2; ++w) {
    EXPECT_EQ(sent.use_count(), w == 0 ? 1 : 2);
    shard.Handle(PushEvent{{w, 1, 1, 0}, {kSumElements - 9, kCount, pieces, sent}});
  }
  EXPECT_EQ(shard.shard().made(), kSumElements);
  EXPECT_EQ(sent.use_count(), 3) << "of two blocks it has a part only";
  shard.Push(0, 1, 0, 0, kSumElements - 9);
  shard.Push(1, 1, 0, 0, kSumElements - 9);
  EXPECT_EQ(sent.use_count(), 3);
  shard.Push(0, 1, 0, 3 * kSumElements - 9, 3 * kSumElements);
  shard.Push(1, 1, 0, 3 * kSumElements - 9, 3 * kSumElements);
  EXPECT_EQ(sent.use_count(), 1);
}

// The mean is over those who are present, whose pushes the early blocks are made of.
TEST_P(Early, WhoIsAbsentIsNotWaitedFor) {
  OneShard shard(Options(Rules(3, GetParam()), 3), kSeed);
  OneShard at_once(Options(Rules(3, GetParam()), 3), kSeed);
  for (OneShard* each : {&shard, &at_once}) each->Regroup({true, true, false});
  PushAllButOne(&shard, 1);
  EXPECT_GT(shard.shard().made(), kCount / 2);
  EXPECT_TRUE(PushLast(&shard, 1).update.has_value());
  at_once.Push(0, 1);
  EXPECT_TRUE(at_once.Push(1, 1).update.has_value());
  ExpectSame(shard.shard().Save(), at_once.shard().Save());
}

// The sum that copies of the shard are sent, and EXACT's first value that is not finite, though the
// block that has it was made last.
TEST(EarlySum, IsTheOneThatWasMadeAtOnce) {
  for (const PsOrder order : {PsOrder::kRank, PsOrder::kExact}) {
    PsRules rules = Rules(3);
    rules.order = order;
    std::vector<ShardOutput> outputs;
    for (const bool early : {true, false}) {
      OneShard shard(Options(rules, 3), kSeed);
      shard.Regroup({true, false, true});
      shard.shard().SetSums(true);
      std::vector<float> spoilt = Gradients(kSeed, 2, 1, kCount);
      spoilt.back() = spoilt[9] = std::numeric_limits<float>::infinity();
      shard.Push(0, 1);
      ShardOutput last;
      for (int64_t end = kCount; end > 0; end -= std::min(end, early ? kChunk : kCount)) {
        const int64_t begin = early ? std::max<int64_t>(0, end - kChunk) : 0;
        const std::vector<Bytes> pieces = {std::as_bytes(std::span(spoilt).subspan(
            static_cast<size_t>(begin), static_cast<size_t>(end - begin)))};
        last = shard.Handle(PushEvent{{2, 1, 1, 0}, {begin, kCount, pieces}});
        ASSERT_TRUE(last.refusals.empty());
      }
      ASSERT_TRUE(last.update.has_value());
      ASSERT_NE(last.sum, nullptr);
      if (order == PsOrder::kExact) {
        ASSERT_TRUE(last.update->non_finite.has_value());
        EXPECT_EQ(last.update->non_finite->element, 9);
        EXPECT_EQ(last.update->non_finite->worker, 2)
            << "by its rank, not its place among those here";
      }
      outputs.push_back(std::move(last));
    }
    EXPECT_TRUE(SameBits(*outputs[0].sum, *outputs[1].sum));
  }
}

// Copies that fold on their own get each push as it came.
TEST(EarlySum, IsNotMadeWhereWholePushesAreWanted) {
  ShardOptions options = Options(Rules(2), 2);
  options.whole_pushes = true;
  OneShard shard(options, kSeed);
  PushAllButOne(&shard, 1);
  EXPECT_EQ(shard.shard().made(), 0);
  const ShardOutput last = PushLast(&shard, 1);
  ASSERT_NE(last.push, nullptr);
  EXPECT_TRUE(SameBits(*last.push, Gradients(kSeed, 1, 1, kCount)));
}

// Nothing is made early where a push alone is an update, and a late one may be dropped.
TEST(EarlySum, IsOnlyForSync) {
  PsRules rules = Rules(2);
  rules.mode = PsMode::kKOfN;
  rules.k = 2;
  OneShard shard(Options(rules, 2), kSeed);
  shard.Push(0, 1, 0, 0, kSumElements);
  shard.Push(1, 1, 0, 0, kSumElements);
  EXPECT_EQ(shard.shard().made(), 0);
}

}  // namespace
}  // namespace lockstep
