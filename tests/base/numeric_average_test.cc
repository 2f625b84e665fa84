// The mean's division: one rounding, the same bits at every place and on every instruction set. And
// which reductions there are at all (CASES R18, R19).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "base/numeric/support.h"
#include "tests/base/numeric_half_oracle.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

constexpr int64_t kDivisors[] = {1, 2, 3, 5, 7, 8, 13, 33, 1000};

class AverageTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, AverageTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

template <typename T>
T Quotient(T value, int64_t divisor) {
  const volatile T quotient = value / static_cast<T>(divisor);
  return std::isnan(quotient) ? CanonicalNan<T>() : quotient;
}
// In double, which has more than twice the digits: rounding to the half once more is the only
// rounding that shows.
template <typename Half>
Half HalfQuotient(Half value, int64_t divisor) {
  return EncodeHalf<Half>(static_cast<double>(DecodeHalf(value)) / static_cast<double>(divisor));
}
F16 Quotient(F16 value, int64_t divisor) { return HalfQuotient(value, divisor); }
Bf16 Quotient(Bf16 value, int64_t divisor) { return HalfQuotient(value, divisor); }

template <typename T>
void ExpectReferenceBits(int64_t count, int64_t shift, int64_t divisor, Isa isa) {
  const auto values = AnyValues<T>(count, static_cast<uint64_t>(count + divisor));
  ShiftedArray<T> array(values, shift);
  Average(DtypeOf(T{}), array.data(), divisor, count, isa);
  std::vector<T> expected;
  for (const T value : values) expected.push_back(Quotient(value, divisor));
  ExpectSameBits(array.Read(), expected,
                 absl::StrCat("count ", count, " at +", shift, " / ", divisor));
}

TEST_P(AverageTest, EveryLengthAndAddressGivesTheReferenceBits) {
  for (const int64_t divisor : kDivisors) {
    for (int64_t count = 0; count <= 70; ++count) {
      ExpectReferenceBits<float>(count, count % 8, divisor, GetParam());
      ExpectReferenceBits<double>(count, count % 8, divisor, GetParam());
      ExpectReferenceBits<F16>(count, count % 8, divisor, GetParam());
      ExpectReferenceBits<Bf16>(count, count % 8, divisor, GetParam());
    }
  }
}

// Subnormal quotients and ties too: every value of the 16-bit types.
template <typename Half>
void ExpectEveryValueRoundedOnce(Isa isa) {
  std::vector<Half> values(65'536);
  for (size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<uint16_t>(i);
  for (const int64_t divisor : kDivisors) {
    std::vector<Half> actual = values;
    Average(DtypeOf(Half{}), actual.data(), divisor, 65'536, isa);
    std::vector<Half> expected;
    for (const Half value : values) expected.push_back(Quotient(value, divisor));
    ExpectSameBits(actual, expected, absl::StrCat("/ ", divisor));
  }
}
TEST_P(AverageTest, EveryF16IsRoundedOnce) { ExpectEveryValueRoundedOnce<F16>(GetParam()); }
TEST_P(AverageTest, EveryBf16IsRoundedOnce) { ExpectEveryValueRoundedOnce<Bf16>(GetParam()); }

TEST_P(AverageTest, KeepsTheSignOfZeroAndMakesNansCanonical) {
  std::vector<float> values = {-0.0F, 0.0F, std::bit_cast<float>(0xffc00123U),
                               -std::numeric_limits<float>::infinity(), 10.0F};
  Average(Dtype::kF32, values.data(), 4, 5, GetParam());
  ExpectSameBits(
      values, {-0.0F, 0.0F, CanonicalNan<float>(), -std::numeric_limits<float>::infinity(), 2.5F},
      "specials");
}

TEST(AverageDeathTest, OfIntegersAndOfFoldsDies) {
  int32_t value = 1;
  EXPECT_DEATH(Average(Dtype::kI32, &value, 2, 1), "average of i32");
  EXPECT_DEATH(Fold(Dtype::kI32, ReduceOp::kAvg, &value, &value, 1), "avg");
}

TEST(SupportTest, AveragesAreForFloatsAloneAndTheRestForAll) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16}) {
    EXPECT_TRUE(Supports(dtype, ReduceOp::kAvg)) << NameOf(dtype);
  }
  for (const Dtype dtype : {Dtype::kI32, Dtype::kI64, Dtype::kU8}) {
    EXPECT_FALSE(Supports(dtype, ReduceOp::kAvg)) << NameOf(dtype);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
      EXPECT_TRUE(Supports(dtype, op)) << NameOf(dtype) << " " << NameOf(op);
    }
  }
  EXPECT_FALSE(Supports(static_cast<Dtype>(7), ReduceOp::kSum));
  EXPECT_FALSE(Supports(Dtype::kF32, static_cast<ReduceOp>(5)));
}

TEST(SupportTest, TheTextListsAll) {
  EXPECT_EQ(SupportText(),
            "f32, f64, f16 (in f32), bf16 (in f32): sum, avg, min, max, prod; i32, i64, u8 (wrap): "
            "sum, min, max, prod");
}

}  // namespace
}  // namespace lockstep
