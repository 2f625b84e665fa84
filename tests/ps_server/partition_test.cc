#include "ps_server/core/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

// The borders at which EXACT's blocks begin.
std::vector<int64_t> BlockBorders(const std::vector<int64_t>& tensors) {
  std::vector<int64_t> borders;
  int64_t start = 0;
  for (const int64_t count : tensors) {
    for (int64_t k = 0; k < count; k += 1024) borders.push_back(start + k);
    start += count;
  }
  borders.push_back(start);
  return borders;
}

struct Case {
  std::string name;
  std::vector<int64_t> tensors;
  int32_t shards;
};

class Tiling : public testing::TestWithParam<Case> {};

TEST_P(Tiling, RangesTileTheSpaceAndCutOnlyAtBlockBorders) {
  const auto ranges = Partition(GetParam().tensors, GetParam().shards);
  ASSERT_THAT(ranges, IsOk());
  ASSERT_EQ(static_cast<int32_t>(ranges->size()), GetParam().shards);
  const std::vector<int64_t> borders = BlockBorders(GetParam().tensors);
  int64_t next = 0;
  for (const ShardRange& range : *ranges) {
    EXPECT_EQ(range.offset, next);
    EXPECT_GT(range.count, 0);
    EXPECT_TRUE(std::binary_search(borders.begin(), borders.end(), range.offset)) << range.offset;
    next = range.offset + range.count;
  }
  EXPECT_EQ(next, borders.back());
}

TEST_P(Tiling, PartsNameEveryElementOnceAndBeginAtBlockBorders) {
  const auto ranges = Partition(GetParam().tensors, GetParam().shards);
  ASSERT_THAT(ranges, IsOk());
  std::vector<int64_t> covered(GetParam().tensors.size(), 0);
  int64_t total = 0;
  for (const ShardRange& range : *ranges) {
    int64_t count = 0;
    for (const TensorPart& part : range.parts) {
      int64_t& next = covered[static_cast<size_t>(part.tensor)];
      EXPECT_EQ(part.offset, next);
      EXPECT_EQ(part.offset % kBlockElements, 0);
      EXPECT_GT(part.count, 0);
      next += part.count;
      count += part.count;
    }
    EXPECT_EQ(count, range.count);
    total += count;
  }
  EXPECT_EQ(covered, GetParam().tensors);
  EXPECT_EQ(total, *CountElements(GetParam().tensors));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Tiling,
    testing::Values(Case{"OneElement", {1}, 1}, Case{"ATensorPerShard", {1, 1, 1}, 3},
                    Case{"SmallFirst", {1, 1, 1, 5000}, 4}, Case{"SmallLast", {5000, 1, 1, 1}, 4},
                    Case{"OneLargeTensor", {1 << 20}, 7}, Case{"ShortLastBlock", {1025, 1025}, 4},
                    Case{"EveryBlockItsOwn", {4096}, 4}, Case{"EmptyFirst", {0, 0, 3000}, 2},
                    Case{"EmptyBetween", {2048, 0, 2048}, 3},
                    Case{"EmptyAtACut", {1024, 0, 1024}, 2}, Case{"EmptyLast", {2048, 0}, 2},
                    Case{"Mlp", {2048, 32, 320, 10}, 2}),
    [](const auto& row) { return row.param.name; });

TEST(Partition, ShardsAreOfEqualBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> tensors;
    int64_t total = 0;
    while (total < 65'536) {
      // From biases of a few elements to matrices larger than the whole rest.
      const int64_t count = 1 + static_cast<int64_t>(random() % (1U << (1 + random() % 18)));
      tensors.push_back(count);
      total += count;
    }
    const auto shards = static_cast<int32_t>(1 + random() % static_cast<uint32_t>(total / 10'240));
    const auto ranges = Partition(tensors, shards);
    ASSERT_THAT(ranges, IsOk());
    int64_t largest = 0;
    for (const ShardRange& range : *ranges) largest = std::max(largest, range.count);
    const double mean = static_cast<double>(total) / shards;
    EXPECT_LE(static_cast<double>(largest) / mean, 1.1)
        << "round " << round << ": " << total << " elements, " << shards << " shards";
  }
}

TEST(Partition, LargeTensorsAreSplit) {
  const auto ranges = Partition({102'400, 10}, 4);
  ASSERT_THAT(ranges, IsOk());
  EXPECT_EQ((*ranges)[1].offset, 25'600);
}

TEST(Partition, RefusesWhatCannotBeCut) {
  EXPECT_THAT(Partition({10, 10}, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, "use 1 to 2 servers"));
  EXPECT_THAT(Partition({10, 10}, 0), StatusIs(absl::StatusCode::kInvalidArgument, "0 shards"));
  EXPECT_THAT(Partition({}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, "no elements in 0 tensors"));
  EXPECT_THAT(Partition({0, 0}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, "no elements in 2 tensors"));
  EXPECT_THAT(Partition({5, -1}, 1), StatusIs(absl::StatusCode::kInvalidArgument, "has -1"));
  EXPECT_THAT(Partition({kElementsMax, kElementsMax}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, "tensor 1"));
}

// R37: one tensor with 90 % of the bytes and 20 small ones, on 4 servers.
std::vector<int64_t> HotTensor() {
  std::vector<int64_t> tensors(21, 10'000);
  tensors[5] = 1'800'000;
  return tensors;
}

double Balance(const std::vector<ShardRange>& ranges) {
  int64_t largest = 0;
  int64_t total = 0;
  for (const ShardRange& range : ranges) {
    largest = std::max(largest, range.count);
    total += range.count;
  }
  return static_cast<double>(largest * static_cast<int64_t>(ranges.size())) /
         static_cast<double>(total);
}

TEST(Placement, OfWholeTensorsIsUnbalancedByAHotOne) {
  EXPECT_LE(Balance(*Partition(HotTensor(), 4)), 1.1);
  EXPECT_NEAR(Balance(*Partition(HotTensor(), 4, PsPlacement::kInTurn)), 3.68, 1e-9);
  EXPECT_NEAR(Balance(*Partition(HotTensor(), 4, PsPlacement::kBySize)), 3.6, 1e-9);
}

TEST(Placement, InTurnAndBySize) {
  const std::vector<int64_t> tensors = {5, 0, 3, 9, 2, 4};
  const auto tensors_of = [&](PsPlacement placement) {
    std::vector<std::vector<int32_t>> shards;
    const auto ranges = Partition(tensors, 2, placement);
    for (const ShardRange& range : *ranges) {
      shards.emplace_back();
      for (const TensorPart& part : range.parts) shards.back().push_back(part.tensor);
    }
    return shards;
  };
  EXPECT_EQ(tensors_of(PsPlacement::kInTurn),
            (std::vector<std::vector<int32_t>>{{0, 2, 4}, {3, 5}}));
  // 9 | 5 | 4 with the 5 | 3 with one of two equal | 2
  EXPECT_EQ(tensors_of(PsPlacement::kBySize),
            (std::vector<std::vector<int32_t>>{{2, 3}, {0, 4, 5}}));
}

// Whatever the placement, every element is in one part, and parts know where they lie.
TEST(Placement, PartsTileTheFlatSpace) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> tensors(1 + random() % 12);
    for (int64_t& count : tensors) count = static_cast<int64_t>(random() % 5'000);
    tensors[0] += 1;
    for (const PsPlacement placement :
         {PsPlacement::kSplit, PsPlacement::kInTurn, PsPlacement::kBySize}) {
      const auto shards = static_cast<int32_t>(1 + random() % 3);
      const auto ranges = Partition(tensors, shards, placement);
      if (!ranges.ok()) continue;
      std::vector<int64_t> start(tensors.size(), 0);
      for (size_t i = 1; i < tensors.size(); ++i) start[i] = start[i - 1] + tensors[i - 1];
      std::vector<TensorPart> all;
      for (const ShardRange& range : *ranges) {
        int64_t count = 0;
        EXPECT_EQ(range.offset, range.parts.front().flat);
        for (const TensorPart& part : range.parts) {
          EXPECT_EQ(part.flat, start[static_cast<size_t>(part.tensor)] + part.offset);
          EXPECT_TRUE(count == 0 || part.flat > all.back().flat) << "not in flat order";
          all.push_back(part);
          count += part.count;
        }
        EXPECT_EQ(count, range.count);
      }
      std::sort(all.begin(), all.end(),
                [](const TensorPart& a, const TensorPart& b) { return a.flat < b.flat; });
      int64_t next = 0;
      for (const TensorPart& part : all) {
        EXPECT_EQ(part.flat, next);
        EXPECT_GT(part.count, 0);
        next += part.count;
      }
      EXPECT_EQ(next, *CountElements(tensors));
    }
  }
}

TEST(Placement, AnIdleServerIsNamed) {
  EXPECT_THAT(Partition({10, 10}, 3, PsPlacement::kInTurn),
              StatusIs(absl::StatusCode::kInvalidArgument, "use 1 to 2 servers"));
  EXPECT_THAT(Partition({10, 0, 7}, 2, PsPlacement::kInTurn),
              StatusIs(absl::StatusCode::kInvalidArgument, "shard 1 of 2 gets no tensor"));
  EXPECT_THAT(Partition({10, 0, 7}, 3, PsPlacement::kBySize),
              StatusIs(absl::StatusCode::kInvalidArgument, "shard 2 of 3 gets no tensor"));
  EXPECT_THAT(Partition({10, 10}, 0, PsPlacement::kBySize),
              StatusIs(absl::StatusCode::kInvalidArgument, "0 shards"));
}

TEST(PsLayout, FingerprintSeesEveryField) {
  const PsLayout base{.rules = {.optimizer = {0.1F, 0.9F, 3.0F}},
                      .tensor_counts = {10, 20},
                      .shards = 2,
                      .world_size = 3};
  std::vector<PsLayout> others(12, base);
  others[0].tensor_counts = {20, 10};
  others[1].tensor_counts = {30};
  others[2].shards = 1;
  others[3].world_size = 4;
  others[4].rules.optimizer.learning_rate = 0.2F;
  others[5].rules.optimizer.momentum = 0.0F;
  others[6].rules.optimizer.divisor = 1.0F;
  others[7].rules.mode = PsMode::kAsync;
  others[8].rules.order = PsOrder::kExact;
  others[9].tensor_counts = {10, 0, 20};
  others[10].placement = PsPlacement::kInTurn;
  others[11].rules.steps = 5;
  for (const PsLayout& other : others) {
    EXPECT_NE(FingerprintOf(other), FingerprintOf(base)) << Describe(other);
  }
  EXPECT_EQ(FingerprintOf(PsLayout(base)), FingerprintOf(base));
  // A state may go to another number of servers, and to nothing else.
  for (size_t i = 0; i < others.size(); ++i) {
    const bool same = i == 2 || i == 10;
    EXPECT_EQ(StateFingerprintOf(others[i]) == StateFingerprintOf(base), same) << i;
  }
  EXPECT_EQ(
      Describe(base),
      "sync, sums in rank order, f32, sgd learning_rate 0.100000001 momentum 0.899999976, sum "
      "divided by 3, 30 parameters in 2 tensors, split, 2 shards, 3 workers");
  EXPECT_EQ(Describe(others[8]).substr(0, 32), "sync, sums in exact order, f32, ");
  EXPECT_EQ(Describe(others[7]).substr(0, 12), "async, f32, ");
}

}  // namespace
}  // namespace lockstep
