// EXACT sums on the server: the bits are those of one sum over the whole flat space, however many
// servers there are and whoever is which rank.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/core/shard.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr uint64_t kSeed = 3;
// Long and short blocks, several a tensor, and an empty tensor.
const std::vector<int64_t> kTensors = {2'500, 0, 1, 1'024, 0, 1'500};

using Pushes = std::vector<std::vector<float>>;  // [rank], whole flat space

// One step of a cluster; what was reported by the shards is appended to `updates`.
std::vector<float> OneStep(const Pushes& pushes, int32_t shards, PsOrder order,
                           const OptimizerOptions& sgd,
                           std::vector<ShardUpdate>* updates = nullptr) {
  const int64_t count = *CountElements(kTensors);
  const std::vector<ShardRange> ranges = *Partition(kTensors, shards);
  const std::vector<float> start = StartValues(kSeed, count);
  const auto part_of = [](const std::vector<float>& values, const ShardRange& range) {
    return std::vector<Bytes>{std::as_bytes(std::span(values).subspan(
        static_cast<size_t>(range.offset), static_cast<size_t>(range.count)))};
  };
  std::vector<float> parameters;
  for (int32_t k = 0; k < shards; ++k) {
    const ShardRange& range = ranges[static_cast<size_t>(k)];
    Shard shard = *Shard::Create({.rules = {.order = order, .optimizer = sgd},
                                  .shard = k,
                                  .range = range,
                                  .world_size = static_cast<int32_t>(pushes.size()),
                                  .staged_bytes_max = 1 << 30,
                                  .sync_timeout_ms = 1'000});
    for (int32_t r = 0; r < static_cast<int32_t>(pushes.size()); ++r) {
      shard.Handle(AttachEvent{r, 0}, 0);
    }
    shard.Handle(InitEvent{{0, 0, 0, k}, {0, range.count, part_of(start, range)}}, 0);
    for (int32_t r = 0; r < static_cast<int32_t>(pushes.size()); ++r) {
      const std::vector<Bytes> pieces = part_of(pushes[static_cast<size_t>(r)], range);
      const ShardOutput output = shard.Handle(PushEvent{{r, 0, 1, k}, {0, range.count, pieces}}, 0);
      EXPECT_TRUE(output.refusals.empty());
      if (output.update.has_value() && updates != nullptr) updates->push_back(*output.update);
    }
    EXPECT_EQ(shard.version(), 1);
    parameters.insert(parameters.end(), shard.parameters()->begin(), shard.parameters()->end());
  }
  return parameters;
}

Pushes MakePushes(int workers) {
  Pushes pushes;
  for (int r = 0; r < workers; ++r) {
    pushes.push_back(Gradients(kSeed, r, 1, *CountElements(kTensors)));
  }
  return pushes;
}

OptimizerOptions Divided(const Pushes& pushes) {
  return {.learning_rate = 0.3F, .momentum = 0.9F, .divisor = static_cast<float>(pushes.size())};
}

class ExactSums : public testing::TestWithParam<std::tuple<int, int32_t>> {};

TEST_P(ExactSums, HaveTheBitsOfOneSumOverTheWholeSpace) {
  const auto [workers, shards] = GetParam();
  const Pushes pushes = MakePushes(workers);
  for (const float divisor : {static_cast<float>(workers), 1.0F}) {
    OptimizerOptions sgd = Divided(pushes);
    sgd.divisor = divisor;
    const auto reference = ReferenceRun(kSeed, workers, 1, *CountElements(kTensors), sgd, kTensors);
    EXPECT_TRUE(SameBits(OneStep(pushes, shards, PsOrder::kExact, sgd), reference[1])) << divisor;
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, ExactSums,
                         testing::Combine(testing::Values(1, 2, 3, 5, 7, 8), testing::Range(1, 4)),
                         [](const auto& row) {
                           return absl::StrCat("n", std::get<0>(row.param), "s",
                                               std::get<1>(row.param));
                         });

TEST(ExactSums, DoNotDependOnWhoIsWhichRank) {
  const Pushes pushes = MakePushes(5);
  const Pushes turned = {pushes[3], pushes[0], pushes[4], pushes[2], pushes[1]};
  const OptimizerOptions sgd = Divided(pushes);
  EXPECT_TRUE(
      SameBits(OneStep(turned, 2, PsOrder::kExact, sgd), OneStep(pushes, 2, PsOrder::kExact, sgd)));
  // The gradients do make the order visible where it counts.
  EXPECT_FALSE(
      SameBits(OneStep(turned, 2, PsOrder::kRank, sgd), OneStep(pushes, 2, PsOrder::kRank, sgd)));
}

TEST(ExactSums, ZeroBlocksAreZero) {
  const Pushes pushes(3, std::vector<float>(static_cast<size_t>(*CountElements(kTensors)), -0.0F));
  EXPECT_TRUE(SameBits(OneStep(pushes, 2, PsOrder::kExact, Divided(pushes)),
                       StartValues(kSeed, *CountElements(kTensors))));
}

class NonFinite : public testing::TestWithParam<int32_t> {};

TEST_P(NonFinite, ABlockIsNanAsAWholeAndItsWorkerIsNamed) {
  const int32_t shards = GetParam();
  Pushes pushes = MakePushes(4);
  const std::vector<float> clean = OneStep(pushes, shards, PsOrder::kExact, Divided(pushes));
  // In tensor 5's second block; a higher rank has one, too.
  const size_t at = 2'500 + 1 + 1'024 + 1'024 + 300;
  pushes[2][at] = std::numeric_limits<float>::infinity();
  pushes[3][at + 10] = std::numeric_limits<float>::quiet_NaN();
  std::vector<ShardUpdate> updates;
  const std::vector<float> spoilt =
      OneStep(pushes, shards, PsOrder::kExact, Divided(pushes), &updates);
  const size_t begin = 2'500 + 1 + 1'024 + 1'024;
  for (size_t i = 0; i < spoilt.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(spoilt[i]);
    ASSERT_EQ(bits, i < begin ? std::bit_cast<uint32_t>(clean[i]) : 0x7fc00000U) << i;
  }
  int named = 0;
  for (const ShardUpdate& update : updates) {
    if (!update.non_finite.has_value()) continue;
    ++named;
    EXPECT_EQ(update.non_finite->worker, 2);
    EXPECT_EQ(update.non_finite->tensor, 5);
    EXPECT_EQ(update.non_finite->element, 1'024 + 300);
  }
  EXPECT_EQ(named, 1);
}

INSTANTIATE_TEST_SUITE_P(Servers, NonFinite, testing::Range(1, 5),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
