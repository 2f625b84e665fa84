#include "worker/bucket/bucket.h"

#include <gtest/gtest.h>

#include <string>

#include "base/numeric/random.h"

namespace lockstep {
namespace {

std::vector<TensorSpan> Tile(const std::vector<int64_t>& counts) {
  std::vector<TensorSpan> tensors;
  int64_t offset = 0;
  for (const int64_t count : counts) {
    tensors.push_back({.offset = offset, .count = count});
    offset += count;
  }
  return tensors;
}

struct GoldenCase {
  std::string name;
  std::vector<int64_t> counts;  // of the tensors, in forward order
  int64_t cap_bytes = 0;
  std::vector<int64_t> bucket_counts;
  std::vector<int> first_tensors;
};

class BucketGoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(BucketGoldenTest, Matches) {
  const GoldenCase& golden = GetParam();
  std::vector<int64_t> counts;
  std::vector<int> first_tensors;
  for (const Bucket& bucket : MakeBuckets(Tile(golden.counts), golden.cap_bytes)) {
    EXPECT_EQ(bucket.index, static_cast<int>(counts.size()));
    counts.push_back(bucket.count);
    first_tensors.push_back(bucket.first_tensor);
  }
  EXPECT_EQ(counts, golden.bucket_counts);
  EXPECT_EQ(first_tensors, golden.first_tensors);
}

constexpr int64_t kMiB = 1 << 20;  // bytes
constexpr int64_t kM = kMiB / 4;   // elements of a MiB

INSTANTIATE_TEST_SUITE_P(
    Cases, BucketGoldenTest,
    testing::Values(
        GoldenCase{"NoTensors", {}, 25 * kMiB, {}, {}},
        GoldenCase{"SmallModelIsOneBucket", {16384, 256, 2560, 10}, 25 * kMiB, {19210}, {0}},
        GoldenCase{"FirstBucketEndsAtOneMegabyte", {kM, kM, kM}, 25 * kMiB, {kM, 2 * kM}, {2, 0}},
        GoldenCase{
            "FirstBucketTakesWholeTensorsOnly", {10, kM, 1}, 25 * kMiB, {1, kM + 10}, {2, 0}},
        GoldenCase{"OthersEndAtTheCap",
                   {kM, kM, kM, kM, kM, kM},
                   2 * kMiB,
                   {kM, 2 * kM, 2 * kM, kM},
                   {5, 3, 1, 0}},
        GoldenCase{"BigTensorIsAlone", {5, 3 * kM, 7}, 2 * kMiB, {7, 3 * kM, 5}, {2, 1, 0}},
        GoldenCase{"BigTensorIsAloneInTheFirst", {5, 3 * kM}, 2 * kMiB, {3 * kM, 5}, {1, 0}},
        GoldenCase{"CapBelowOneMegabyteHoldsForTheFirst", {2, 2, 2, 2}, 16, {4, 4}, {2, 0}},
        GoldenCase{"TinyCapGivesOneBucketPerTensor", {3, 2, 1}, 1, {1, 2, 3}, {2, 1, 0}},
        // CASES R20: an empty tensor joins whatever bucket is open.
        GoldenCase{"EmptyTensorsTakeNoPlace", {0, 3, 0, 2, 0}, 8, {2, 3}, {2, 0}},
        GoldenCase{"EmptyTensorsBesideALargeOne", {0, 4, 0}, 8, {4}, {0}},
        GoldenCase{"OnlyEmptyTensors", {0, 0}, 8, {0}, {0}}),
    [](const auto& test) { return test.param.name; });

// From the arena's end to its start, without gap or overlap, and every limit kept.
TEST(BucketTest, BucketsTileTheArenaBackwards) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed, 0);
    std::vector<int64_t> counts(1 + random.Below(30));
    for (int64_t& count : counts) count = 1 + random.Below(400000);
    const int64_t cap_bytes = 4 * (1 + static_cast<int64_t>(random.Below(600000)));
    const std::vector<TensorSpan> tensors = Tile(counts);
    int64_t start = tensors.back().offset + tensors.back().count;
    int next_tensor = static_cast<int>(tensors.size());
    for (const Bucket& bucket : MakeBuckets(tensors, cap_bytes)) {
      EXPECT_EQ(bucket.offset + bucket.count, start) << "seed " << seed;
      EXPECT_EQ(bucket.offset, tensors.at(static_cast<size_t>(bucket.first_tensor)).offset);
      const int members = next_tensor - bucket.first_tensor;
      EXPECT_GE(members, 1);
      EXPECT_EQ(bucket.tensors, members);
      const int64_t limit_bytes =
          bucket.index == 0 ? std::min(kFirstBucketBytes, cap_bytes) : cap_bytes;
      EXPECT_TRUE(members == 1 || bucket.count * 4 <= limit_bytes) << "seed " << seed;
      start = bucket.offset;
      next_tensor = bucket.first_tensor;
    }
    EXPECT_EQ(start, 0) << "seed " << seed;
    EXPECT_EQ(next_tensor, 0) << "seed " << seed;
  }
}

TEST(BucketDeathTest, GapBetweenTensorsDies) {
  EXPECT_DEATH(MakeBuckets({{.offset = 0, .count = 4}, {.offset = 5, .count = 1}}, 100), "gaps");
}

}  // namespace
}  // namespace lockstep
