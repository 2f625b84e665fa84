#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

// One addition, one rounding: the store to a volatile forbids fusing and wider intermediates.
float AddOne(float target, float source) {
  volatile float sum = target + source;
  return sum == sum ? sum : std::bit_cast<float>(0x7fc00000U);
}
int64_t AddOne(int64_t target, int64_t source) {
  return static_cast<int64_t>(static_cast<uint64_t>(target) + static_cast<uint64_t>(source));
}

template <typename T>
std::vector<T> Reference(const std::vector<T>& target, const std::vector<T>& source) {
  std::vector<T> sums;
  for (size_t i = 0; i < target.size(); ++i) sums.push_back(AddOne(target[i], source[i]));
  return sums;
}

constexpr Dtype DtypeOf(float) { return Dtype::kF32; }
constexpr Dtype DtypeOf(int64_t) { return Dtype::kI64; }

template <typename T>
void FoldEqualsReference(Isa isa, int64_t count, int64_t source_shift, int64_t target_shift) {
  const auto source = AnyValues<T>(count, static_cast<uint64_t>(count));
  const auto target = AnyValues<T>(count, static_cast<uint64_t>(count) + 1000);
  ShiftedArray<T> from(source, source_shift);
  ShiftedArray<T> to(target, target_shift);
  Fold(DtypeOf(T{}), ReduceOp::kSum, from.data(), to.data(), count, isa);
  const std::string where = absl::StrCat(NameOf(isa), ", count ", count, ", source at +",
                                         source_shift, ", target at +", target_shift);
  ExpectSameBits(to.Read(), Reference(target, source), where);
  ExpectSameBits(from.Read(), source, where + ", source");
}

// Folding [0, split) and [split, count) gives the bits of one fold.
template <typename T>
void SplitChangesNothing(Isa isa, int64_t split, int64_t shift) {
  const int64_t count = 200;
  const auto source = AnyValues<T>(count, 1);
  const auto target = AnyValues<T>(count, 2);
  ShiftedArray<T> from(source, shift);
  ShiftedArray<T> to(target, 0);
  const auto size = static_cast<int64_t>(sizeof(T));
  Fold(DtypeOf(T{}), ReduceOp::kSum, from.data(), to.data(), split, isa);
  Fold(DtypeOf(T{}), ReduceOp::kSum, from.data() + split * size, to.data() + split * size,
       count - split, isa);
  ExpectSameBits(to.Read(), Reference(target, source),
                 absl::StrCat(NameOf(isa), ", split at ", split, ", source at +", shift));
}

class FoldTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, FoldTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(FoldTest, EveryLengthGivesTheReferenceBits) {
  for (int64_t count = 0; count <= 200; ++count) {
    FoldEqualsReference<float>(GetParam(), count, 0, 0);
    FoldEqualsReference<int64_t>(GetParam(), count, 0, 0);
  }
}

TEST_P(FoldTest, EveryAddressGivesTheReferenceBits) {
  for (int64_t shift = 0; shift <= 64; ++shift) {
    FoldEqualsReference<float>(GetParam(), 67, shift, 64 - shift);
    FoldEqualsReference<int64_t>(GetParam(), 67, 3, shift);
  }
}

TEST_P(FoldTest, EverySplitGivesTheBitsOfTheWhole) {
  for (int64_t split = 0; split <= 64; ++split) {
    for (const int64_t shift : {0, 1, 4, 7}) {
      SplitChangesNothing<float>(GetParam(), split, shift);
      SplitChangesNothing<int64_t>(GetParam(), split, shift);
    }
  }
}

TEST_P(FoldTest, IntegersWrap) {
  const std::vector<int64_t> source(9, 1);
  std::vector<int64_t> target(9, std::numeric_limits<int64_t>::max());
  Fold(Dtype::kI64, ReduceOp::kSum, source.data(), target.data(), 9, GetParam());
  EXPECT_EQ(target, std::vector<int64_t>(9, std::numeric_limits<int64_t>::min()));
}

TEST_P(FoldTest, SubnormalsAndSignedZerosSurvive) {
  const std::vector<float> source(33, 0x1p-149F);
  std::vector<float> target(33, 0x1p-149F);
  Fold(Dtype::kF32, ReduceOp::kSum, source.data(), target.data(), 33, GetParam());
  EXPECT_EQ(target, std::vector<float>(33, 0x1p-148F));

  const std::vector<float> minus(33, -0.0F);
  std::vector<float> sum(33, -0.0F);
  Fold(Dtype::kF32, ReduceOp::kSum, minus.data(), sum.data(), 33, GetParam());
  for (const float value : sum) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0x80000000U);
}

TEST_P(FoldTest, EveryNanIsTheQuietOne) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> source = {std::bit_cast<float>(0xffc00001U), -infinity, 1.0F};
  std::vector<float> target = {std::bit_cast<float>(0x7fc00002U), infinity,
                               std::bit_cast<float>(0xff800001U)};
  Fold(Dtype::kF32, ReduceOp::kSum, source.data(), target.data(), 3, GetParam());
  for (const float value : target) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0x7fc00000U);
}

TEST_P(FoldTest, FoldingAnArrayOntoItselfDoublesIt) {
  std::vector<float> values(100, 1.5F);
  Fold(Dtype::kF32, ReduceOp::kSum, values.data(), values.data(), 100, GetParam());
  EXPECT_EQ(values, std::vector<float>(100, 3.0F));
}

TEST_P(FoldTest, DivideRoundsOncePerElement) {
  for (const float divisor : {1.0F, 3.0F, 7.0F, 0x1.8p70F}) {
    for (int64_t count = 0; count <= 70; ++count) {
      std::vector<float> values = AnyValues<float>(count, static_cast<uint64_t>(count));
      std::vector<float> expected;
      for (const float value : values) {
        volatile float quotient = value / divisor;
        expected.push_back(quotient == quotient ? quotient : std::bit_cast<float>(0x7fc00000U));
      }
      Divide(values.data(), divisor, count, GetParam());
      ExpectSameBits(values, expected, absl::StrCat(NameOf(GetParam()), " / ", divisor));
    }
  }
}

TEST(FoldDeathTest, NegativeCountDies) {
  float value = 0.0F;
  EXPECT_DEATH(Fold(Dtype::kF32, ReduceOp::kSum, &value, &value, -1), "count >= 0");
}

TEST(IsaTest, BestIsaIsSupportedAndBaselineAlwaysIs) {
  EXPECT_TRUE(Supported(Isa::kBaseline));
  EXPECT_TRUE(Supported(BestIsa()));
}

TEST(DtypeTest, NamesAndSizes) {
  EXPECT_STREQ(NameOf(Dtype::kF32), "f32");
  EXPECT_STREQ(NameOf(Dtype::kI64), "i64");
  EXPECT_STREQ(NameOf(ReduceOp::kSum), "sum");
  EXPECT_EQ(SizeOf(Dtype::kF32), 4);
  EXPECT_EQ(SizeOf(Dtype::kI64), 8);
}

}  // namespace
}  // namespace lockstep
