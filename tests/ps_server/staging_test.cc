#include "ps_server/core/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/numeric/convert.h"
#include "base/numeric/fold.h"
#include "tests/ps_server/one_shard.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

// Bytes that travelled, in pieces cut anywhere: within an element, too, and some of them empty.
struct Travelled {
  std::vector<std::byte> bytes;
  std::vector<Bytes> pieces;
};
std::shared_ptr<Travelled> Send(const std::vector<float>& values, Dtype wire, uint64_t seed) {
  auto sent = std::make_shared<Travelled>();
  const auto count = static_cast<int64_t>(values.size());
  sent->bytes.resize(static_cast<size_t>(count * SizeOf(wire)));
  if (wire == Dtype::kF32) {
    std::memcpy(sent->bytes.data(), values.data(), sent->bytes.size());
  } else {
    Convert(Dtype::kF32, values.data(), wire, sent->bytes.data(), count);
  }
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < sent->bytes.size();) {
    const size_t size = std::min<size_t>(sent->bytes.size() - at, random() % 5'000);
    sent->pieces.push_back(Bytes(sent->bytes).subspan(at, size));
    at += size;
  }
  return sent;
}

// As they are after the way there.
std::vector<float> Rounded(const std::vector<float>& values, Dtype wire) {
  if (wire == Dtype::kF32) return values;
  const std::shared_ptr<Travelled> sent = Send(values, wire, 0);
  std::vector<float> rounded(values.size());
  Convert(wire, sent->bytes.data(), Dtype::kF32, rounded.data(),
          static_cast<int64_t>(values.size()));
  return rounded;
}

class StagedChunks : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Wires, StagedChunks,
                         testing::Values(Dtype::kF32, Dtype::kF16, Dtype::kBf16));

// Large and small chunks, with and without an owner, in any order; read, and added, in blocks that
// begin anywhere.
TEST_P(StagedChunks, AreReadWhereverTheyLie) {
  constexpr int64_t kElements = 30'000;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<float> values = NoiseVector(seed, 1, kElements);
    std::vector<std::pair<int64_t, int64_t>> chunks;
    for (int64_t at = 0; at < kElements;) {
      const uint64_t most = random() % 2 == 0 ? 50 : 9'000;
      const auto size = static_cast<int64_t>(1 + random() % most);
      chunks.emplace_back(at, std::min(kElements - at, size));
      at += chunks.back().second;
    }
    std::shuffle(chunks.begin(), chunks.end(), random);
    Staging staging;
    staging.Reset(kElements, GetParam());
    for (const auto& [begin, size] : chunks) {
      const std::vector<float> part(values.begin() + begin, values.begin() + begin + size);
      const std::shared_ptr<Travelled> sent = Send(part, GetParam(), random());
      ASSERT_THAT(staging.Add(begin, size, sent->pieces, random() % 4 == 0 ? nullptr : sent),
                  IsOk());
    }
    ASSERT_TRUE(staging.complete());
    const std::vector<float> expected = Rounded(values, GetParam());
    const std::vector<float> others = NoiseVector(seed, 2, kElements);
    std::vector<float> added = others;
    std::vector<float> sum = others;
    Fold(Dtype::kF32, ReduceOp::kSum, expected.data(), sum.data(), kElements);
    std::vector<float> read(static_cast<size_t>(kElements));
    for (int64_t at = 0; at < kElements;) {
      const auto size =
          std::min(kElements - at, static_cast<int64_t>(1 + random() % uint64_t{4'096}));
      staging.Read(at, size, read.data() + at);
      staging.AddTo(at, size, added.data() + at);
      at += size;
    }
    EXPECT_EQ(read, expected) << "seed " << seed;
    EXPECT_EQ(added, sum) << "seed " << seed;
    staging.Read(0, kElements, read.data());
    EXPECT_EQ(read, expected) << "seed " << seed;
  }
}

TEST(Staging, ALargeChunkIsKeptUntilItIsDiscarded) {
  const std::vector<float> values = NoiseVector(1, 1, 2'048);
  const std::shared_ptr<Travelled> large = Send(values, Dtype::kF32, 1);
  const std::shared_ptr<Travelled> small =
      Send({values.begin(), values.begin() + 8}, Dtype::kF32, 2);
  Staging staging;
  staging.Reset(2'056, Dtype::kF32);
  ASSERT_THAT(staging.Add(0, 2'048, large->pieces, large), IsOk());
  ASSERT_THAT(staging.Add(2'048, 8, small->pieces, small), IsOk());
  EXPECT_EQ(large.use_count(), 2);
  EXPECT_EQ(small.use_count(), 1) << "what it costs to keep it would be more than its bytes";
  ASSERT_THAT(staging.Add(0, 2'048, large->pieces, large), IsOk());
  EXPECT_EQ(large.use_count(), 2) << "a duplicate";
  staging.Reset(2'056, Dtype::kF32);
  EXPECT_EQ(large.use_count(), 1);
  std::vector<Bytes> crumbs;
  for (size_t at = 0; at < large->bytes.size(); at += 512) {
    crumbs.push_back(Bytes(large->bytes).subspan(at, 512));
  }
  ASSERT_THAT(staging.Add(0, 2'048, crumbs, large), IsOk());
  EXPECT_EQ(large.use_count(), 1) << "likewise, for many small pieces";
}

// One small chunk among large ones cost a second copy of the whole shard.
TEST_P(StagedChunks, WhatIsHeldIsWhatCame) {
  constexpr int64_t kElements = 64'000;
  const std::vector<float> values = NoiseVector(3, 1, kElements);
  for (const int64_t size : {int64_t{1}, int64_t{16}, int64_t{640}, int64_t{16'000}}) {
    for (const bool backwards : {false, true}) {
      Staging staging;
      staging.Reset(kElements, GetParam());
      for (int64_t i = 0; i < kElements / size; ++i) {
        const int64_t begin = backwards ? kElements - (i + 1) * size : i * size;
        const std::vector<float> part(values.begin() + begin, values.begin() + begin + size);
        const std::shared_ptr<Travelled> sent = Send(part, GetParam(), 1);
        sent->pieces = {Bytes(sent->bytes)};
        ASSERT_THAT(staging.Add(begin, size, sent->pieces, i % 2 == 0 ? sent : nullptr), IsOk());
        const int64_t came = (i + 1) * size * SizeOf(GetParam());
        ASSERT_GE(staging.held_bytes(), came);
        ASSERT_LE(staging.held_bytes(), came + came / 10 + 256) << size << " " << backwards;
      }
      std::vector<float> read(static_cast<size_t>(kElements));
      staging.Read(0, kElements, read.data());
      EXPECT_EQ(read, Rounded(values, GetParam()));
    }
  }
}

// The memory of a table stays for the next push by rows, and goes where its elements come
// otherwise.
TEST(Staging, ATableIsHeldOnce) {
  const TableRows table = {.tensor = 0, .row_elements = 4, .begin = 0, .end = 512, .offset = 100};
  const std::vector<int64_t> rows = {3, 500};
  const std::vector<float> two(8, 1.5F);
  const std::vector<Bytes> pieces = {std::as_bytes(std::span(two))};
  Staging staging;
  for (int push = 0; push < 2; ++push) {
    staging.Reset(2'148, Dtype::kF32);
    EXPECT_TRUE(staging.empty());
    ASSERT_THAT(staging.AddRows({.table = table, .rows = rows, .last = true}, pieces), IsOk());
    EXPECT_EQ(staging.staged(), 2'048);
    EXPECT_EQ(staging.held_bytes(), 2'048 * 4);
    std::vector<float> read(2'048);
    staging.Read(100, 2'048, read.data());
    EXPECT_EQ(std::count(read.begin(), read.end(), 1.5F), 8);
    EXPECT_EQ(std::count(read.begin(), read.end(), 0.0F), 2'040);
    staging.AddTo(100, 2'048, read.data());
    EXPECT_EQ(std::count(read.begin(), read.end(), 3.0F), 8);
  }
  staging.Reset(2'148, Dtype::kF32);
  const std::vector<float> values = NoiseVector(1, 1, 2'148);
  const std::shared_ptr<Travelled> sent = Send(values, Dtype::kF32, 1);
  ASSERT_THAT(staging.Add(0, 2'148, sent->pieces, sent), IsOk());
  EXPECT_LT(staging.held_bytes(), 2'148 * 4 + 512);
  std::vector<float> read(2'148);
  staging.Read(0, 2'148, read.data());
  EXPECT_EQ(read, values);
}

// The same bits, and nothing kept after the update.
TEST(Staging, AShardsUpdateIsTheSameFromKeptChunks) {
  constexpr int64_t kElements = 10'000;
  for (const PsOrder order : {PsOrder::kRank, PsOrder::kExact}) {
    PsRules rules;
    rules.order = order;
    rules.optimizer = {.learning_rate = 0.1F, .momentum = 0.9F, .divisor = 3.0F};
    OneShard copied(OneShardOptions(rules, 3, kElements), 5);
    OneShard kept(OneShardOptions(rules, 3, kElements), 5);
    for (int64_t step = 1; step <= 3; ++step) {
      for (const int32_t w : {2, 0, 1}) {
        copied.Push(w, step);
        const std::vector<float> gradients = Gradients(5, w, step, kElements);
        const std::shared_ptr<Travelled> sent = Send(gradients, Dtype::kF32, 9);
        const ShardChunk chunk = {0, kElements, sent->pieces, sent};
        EXPECT_TRUE(kept.Handle(PushEvent{{w, 1, step, 0}, chunk}).refusals.empty());
        EXPECT_EQ(sent.use_count(), w == 1 ? 2 : 3) << "only this test's, after the update";
      }
      ASSERT_EQ(kept.shard().version(), step);
      EXPECT_EQ(*kept.shard().parameters(), *copied.shard().parameters()) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace lockstep
