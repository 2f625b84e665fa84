#include "experiments/bench/values.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "base/numeric/support.h"

namespace lockstep {
namespace {

// 17 at most of each rank.
TEST(FirstWrappedTest, KnowsWhereAnIntegerIsTooSmall) {
  EXPECT_EQ(FirstWrapped(15, Dtype::kU8, ReduceOp::kSum), -1);
  EXPECT_GE(FirstWrapped(30, Dtype::kU8, ReduceOp::kSum), 0);
  EXPECT_EQ(FirstWrapped(30, Dtype::kU8, ReduceOp::kMax), -1);
  EXPECT_EQ(FirstWrapped(1'000, Dtype::kI32, ReduceOp::kSum), -1);
  EXPECT_EQ(FirstWrapped(30, Dtype::kF16, ReduceOp::kSum), -1);
}

constexpr int64_t kCount = 10'000;  // beyond the pattern's period

class ValuesTest : public testing::TestWithParam<std::tuple<Dtype, ReduceOp, int>> {
 protected:
  Dtype dtype() const { return std::get<0>(GetParam()); }
  ReduceOp op() const { return std::get<1>(GetParam()); }
  int n() const { return std::get<2>(GetParam()); }
  std::vector<std::byte> Input(int rank) const {
    std::vector<std::byte> data(static_cast<size_t>(kCount * SizeOf(dtype())));
    FillInput(rank, dtype(), op(), data.data(), kCount);
    return data;
  }
  // By base/numeric, in rank order; any order must give the same bits.
  std::vector<std::byte> Reduced() const {
    std::vector<std::byte> result = Input(n() - 1);
    const ReduceOp fold = op() == ReduceOp::kAvg ? ReduceOp::kSum : op();
    for (int rank = n() - 2; rank >= 0; --rank) {
      Fold(dtype(), fold, Input(rank).data(), result.data(), kCount);
    }
    if (op() == ReduceOp::kAvg) Average(dtype(), result.data(), n(), kCount);
    return result;
  }
};

TEST_P(ValuesTest, TheRightResultPassesAndEveryOtherOneFails) {
  std::vector<std::byte> result = Reduced();
  EXPECT_EQ(FirstWrong(n(), dtype(), op(), result.data(), kCount), -1);
  const int64_t last = kCount - 1;
  std::byte& low = result[static_cast<size_t>(last * SizeOf(dtype()))];
  low ^= std::byte{1};
  EXPECT_EQ(FirstWrong(n(), dtype(), op(), result.data(), kCount), last);
}

std::vector<std::tuple<Dtype, ReduceOp, int>> Supported() {
  std::vector<std::tuple<Dtype, ReduceOp, int>> cases;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16, Dtype::kI32,
                            Dtype::kI64, Dtype::kU8}) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
      for (const int n : {1, 2, 3, 8}) {
        if (Supports(dtype, op)) cases.emplace_back(dtype, op, n);
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, ValuesTest, testing::ValuesIn(Supported()), [](const auto& param) {
  return absl::StrCat(NameOf(std::get<0>(param.param)), "_", NameOf(std::get<1>(param.param)), "_n",
                      std::get<2>(param.param));
});

TEST(ValuesTest, AChunkInTheWrongPlaceIsSeen) {
  constexpr int64_t kChunk = 4096;
  std::vector<float> data(4 * kChunk);
  FillInput(0, Dtype::kF32, ReduceOp::kSum, data.data(), 4 * kChunk);
  ASSERT_EQ(FirstWrong(1, Dtype::kF32, ReduceOp::kSum, data.data(), 4 * kChunk), -1);
  std::memcpy(data.data() + kChunk, data.data(), kChunk * sizeof(float));
  EXPECT_GE(FirstWrong(1, Dtype::kF32, ReduceOp::kSum, data.data(), 4 * kChunk), kChunk);
}

TEST(ValuesTest, AMissingRankIsSeen) {
  std::vector<float> data(100);
  FillInput(0, Dtype::kF32, ReduceOp::kSum, data.data(), 100);
  EXPECT_EQ(FirstWrong(2, Dtype::kF32, ReduceOp::kSum, data.data(), 100), 0);
}

}  // namespace
}  // namespace lockstep
