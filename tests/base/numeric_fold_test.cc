#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "tests/base/numeric_half_oracle.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;

// One operation, one rounding: the store to a volatile forbids fusing and wider intermediates.
template <typename T>
T FoldFloats(ReduceOp op, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return CanonicalNan<T>();
  volatile T result = op == ReduceOp::kSum ? a + b : a * b;
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    const bool a_first = a < b || (a == b && std::signbit(a));
    result = a_first == (op == ReduceOp::kMin) ? a : b;
  }
  return std::isnan(result) ? CanonicalNan<T>() : result;
}

// In 128 bits, cut down to the type's own.
template <typename T>
T FoldIntegers(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMin) return std::min(a, b);
  if (op == ReduceOp::kMax) return std::max(a, b);
  const auto wide_a = static_cast<__int128>(a);
  const auto wide_b = static_cast<__int128>(b);
  return static_cast<T>(op == ReduceOp::kSum ? wide_a + wide_b : wide_a * wide_b);
}

template <typename T>
T FoldOne(ReduceOp op, T a, T b) {
  if constexpr (kIsHalf<T>) {
    return EncodeHalf<T>(static_cast<double>(FoldFloats(op, DecodeHalf(a), DecodeHalf(b))));
  } else if constexpr (std::is_integral_v<T>) {
    return FoldIntegers(op, a, b);
  } else {
    return FoldFloats(op, a, b);
  }
}

template <typename T>
std::vector<T> Reference(ReduceOp op, const std::vector<T>& target, const std::vector<T>& source) {
  std::vector<T> results;
  for (size_t i = 0; i < target.size(); ++i) results.push_back(FoldOne(op, target[i], source[i]));
  return results;
}

using Case = std::tuple<Dtype, ReduceOp, Isa>;

constexpr Dtype kDtypes[] = {Dtype::kF32,  Dtype::kI64, Dtype::kF64, Dtype::kF16,
                             Dtype::kBf16, Dtype::kI32, Dtype::kU8};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};

// Calls function(T{}) with the dtype's type.
template <typename Function>
void WithType(Dtype dtype, Function function) {
  switch (dtype) {
    case Dtype::kF32:
      return function(float{});
    case Dtype::kI64:
      return function(int64_t{});
    case Dtype::kF64:
      return function(double{});
    case Dtype::kF16:
      return function(F16{});
    case Dtype::kBf16:
      return function(Bf16{});
    case Dtype::kI32:
      return function(int32_t{});
    case Dtype::kU8:
      return function(uint8_t{});
  }
}

class FoldTest : public testing::TestWithParam<Case> {
 protected:
  Dtype dtype() const { return std::get<0>(GetParam()); }
  ReduceOp op() const { return std::get<1>(GetParam()); }
  Isa isa() const { return std::get<2>(GetParam()); }

  template <typename T>
  void FoldEqualsReference(int64_t count, int64_t source_shift, int64_t target_shift) const {
    const auto source = AnyValues<T>(count, static_cast<uint64_t>(count));
    const auto target = AnyValues<T>(count, static_cast<uint64_t>(count) + 1000);
    ShiftedArray<T> from(source, source_shift);
    ShiftedArray<T> to(target, target_shift);
    Fold(dtype(), op(), from.data(), to.data(), count, isa());
    const std::string where =
        absl::StrCat("count ", count, ", source at +", source_shift, ", target at +", target_shift);
    ExpectSameBits(to.Read(), Reference(op(), target, source), where);
    ExpectSameBits(from.Read(), source, where + ", source");
  }
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat(NameOf(std::get<0>(info.param)), "_", NameOf(std::get<1>(info.param)), "_",
                      NameOf(std::get<2>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, FoldTest,
                         testing::Combine(testing::ValuesIn(kDtypes), testing::ValuesIn(kOps),
                                          testing::ValuesIn(SupportedIsas())),
                         CaseName);

TEST_P(FoldTest, EveryLengthGivesTheReferenceBits) {
  WithType(dtype(), [&](auto type) {
    for (int64_t count = 0; count <= 150; ++count) FoldEqualsReference<decltype(type)>(count, 0, 0);
  });
}

TEST_P(FoldTest, EveryAddressGivesTheReferenceBits) {
  WithType(dtype(), [&](auto type) {
    for (int64_t shift = 0; shift <= 64; ++shift) {
      FoldEqualsReference<decltype(type)>(67, shift, 64 - shift);
      FoldEqualsReference<decltype(type)>(67, 3, shift);
    }
  });
}

// Folding [0, split) and [split, count) gives the bits of one fold.
TEST_P(FoldTest, EverySplitGivesTheBitsOfTheWhole) {
  WithType(dtype(), [&](auto type) {
    using T = decltype(type);
    const int64_t count = 200;
    const auto source = AnyValues<T>(count, 1);
    const auto target = AnyValues<T>(count, 2);
    const auto expected = Reference(op(), target, source);
    for (int64_t split = 0; split <= 64; ++split) {
      for (const int64_t shift : {0, 1, 4, 7}) {
        ShiftedArray<T> from(source, shift);
        ShiftedArray<T> to(target, 0);
        const int64_t bytes = split * SizeOf(dtype());
        Fold(dtype(), op(), from.data(), to.data(), split, isa());
        Fold(dtype(), op(), from.data() + bytes, to.data() + bytes, count - split, isa());
        ExpectSameBits(to.Read(), expected,
                       absl::StrCat("split at ", split, ", source at +", shift));
      }
    }
  });
}

TEST_P(FoldTest, FoldingAnArrayOntoItselfIsAllowed) {
  WithType(dtype(), [&](auto type) {
    using T = decltype(type);
    auto values = AnyValues<T>(100, 3);
    const auto expected = Reference(op(), values, values);
    Fold(dtype(), op(), values.data(), values.data(), 100, isa());
    ExpectSameBits(values, expected, "onto itself");
  });
}

constexpr Dtype kFloats[] = {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16};

class FoldFloatTest : public FoldTest {};
INSTANTIATE_TEST_SUITE_P(All, FoldFloatTest,
                         testing::Combine(testing::ValuesIn(kFloats), testing::ValuesIn(kOps),
                                          testing::ValuesIn(SupportedIsas())),
                         CaseName);

TEST_P(FoldFloatTest, EveryNanIsTheCanonicalOne) {
  WithType(dtype(), [&]<typename T>(T) {
    if constexpr (!std::is_integral_v<T>) {
      using Special = SpecialBits<T>;
      using Pattern = decltype(Bits(T{}));
      std::vector<T> source;
      std::vector<T> target;
      for (const int payload : {1, 2, 3}) {
        for (const Pattern sign : {Pattern{0}, Pattern{Special::kSign}}) {
          const auto nan =
              static_cast<Pattern>(Special::kInfinity | static_cast<Pattern>(payload) | sign);
          for (const Pattern other : {nan, Special::kOne, Special::kInfinity, Special::kSign}) {
            source.insert(source.end(), {std::bit_cast<T>(nan), std::bit_cast<T>(other)});
            target.insert(target.end(), {std::bit_cast<T>(other), std::bit_cast<T>(nan)});
          }
        }
      }
      const std::vector<T> expected(source.size(), CanonicalNan<T>());
      Fold(dtype(), op(), source.data(), target.data(), static_cast<int64_t>(target.size()), isa());
      ExpectSameBits(target, expected, "NaN");
    }
  });
}

// Closed forms, so that the reference above is itself held to something.
class FoldValueTest : public testing::TestWithParam<Isa> {
 protected:
  template <typename T>
  void Expect(ReduceOp op, T target, T source, T expected) const {
    const std::vector<T> from(33, source);
    std::vector<T> to(33, target);
    Fold(DtypeOf(T{}), op, from.data(), to.data(), 33, GetParam());
    ExpectSameBits(to, std::vector<T>(33, expected), NameOf(op));
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, FoldValueTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(FoldValueTest, IntegersWrap) {
  constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();
  constexpr int32_t kMax32 = std::numeric_limits<int32_t>::max();
  Expect<int64_t>(ReduceOp::kSum, kMax64, 1, -kMax64 - 1);
  Expect<int64_t>(ReduceOp::kProd, kMax64, kMax64, 1);
  Expect<int32_t>(ReduceOp::kSum, kMax32, 1, -kMax32 - 1);
  Expect<int32_t>(ReduceOp::kProd, 65536, 65537, 65536);
  Expect<uint8_t>(ReduceOp::kSum, 255, 2, 1);
  Expect<uint8_t>(ReduceOp::kProd, 17, 16, 16);
  Expect<uint8_t>(ReduceOp::kMax, 200, 100, 200);  // not as signed bytes
  Expect<int32_t>(ReduceOp::kMin, -1, 1, -1);
}

TEST_P(FoldValueTest, MinusZeroIsBelowPlusZero) {
  const auto check = [this]<typename T>(T plus) {
    const auto minus = std::bit_cast<T>(SpecialBits<T>::kSign);
    for (const auto& [target, source] : {std::pair<T, T>{plus, minus}, {minus, plus}}) {
      Expect(ReduceOp::kMin, target, source, minus);
      Expect(ReduceOp::kMax, target, source, plus);
    }
  };
  check(0.0F);
  check(0.0);
  check(F16{});
  check(Bf16{});
}

TEST_P(FoldValueTest, SubnormalsAndSignedZerosSurvive) {
  Expect(ReduceOp::kSum, 0x1p-149F, 0x1p-149F, 0x1p-148F);
  Expect(ReduceOp::kSum, -0.0F, -0.0F, -0.0F);
  Expect(ReduceOp::kSum, 0x1p-1074, 0x1p-1074, 0x1p-1073);
  Expect(ReduceOp::kSum, F16{1}, F16{1}, F16{2});
  Expect(ReduceOp::kSum, Bf16{1}, Bf16{1}, Bf16{2});
  Expect(ReduceOp::kProd, 0x1p-100F, 0x1p-49F, 0x1p-149F);
}

TEST_P(FoldValueTest, HalvesRoundToEvenOnceAFold) {
  Expect(ReduceOp::kSum, EncodeHalf<F16>(2048), EncodeHalf<F16>(1), EncodeHalf<F16>(2048));
  Expect(ReduceOp::kSum, EncodeHalf<F16>(2048), EncodeHalf<F16>(3), EncodeHalf<F16>(2052));
  Expect(ReduceOp::kSum, F16{0x7bff}, EncodeHalf<F16>(16), F16{0x7c00});  // 65520 is infinity
  Expect(ReduceOp::kSum, F16{0x7bff}, EncodeHalf<F16>(8), F16{0x7bff});
  Expect(ReduceOp::kProd, EncodeHalf<F16>(0x1p-14), EncodeHalf<F16>(0x1p-11), F16{0});
  Expect(ReduceOp::kSum, EncodeHalf<Bf16>(256), EncodeHalf<Bf16>(1), EncodeHalf<Bf16>(256));
  Expect(ReduceOp::kSum, EncodeHalf<Bf16>(256), EncodeHalf<Bf16>(3), EncodeHalf<Bf16>(260));
  Expect(ReduceOp::kSum, Bf16{0x7f7f}, Bf16{0x7f7f}, Bf16{0x7f80});
}

TEST_P(FoldValueTest, InfinitiesThatCancelAreNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  Expect(ReduceOp::kSum, infinity, -infinity, CanonicalNan<float>());
  Expect(ReduceOp::kProd, -infinity, 0.0F, CanonicalNan<float>());
  Expect(ReduceOp::kMin, infinity, -infinity, -infinity);
  Expect(ReduceOp::kSum, F16{0x7c00}, F16{0xfc00}, CanonicalNan<F16>());
  Expect(ReduceOp::kProd, Bf16{0x7f80}, Bf16{0}, CanonicalNan<Bf16>());
}

TEST_P(FoldValueTest, DivideRoundsOncePerElement) {
  for (const float divisor : {1.0F, 3.0F, 7.0F, 0x1.8p70F}) {
    for (int64_t count = 0; count <= 70; ++count) {
      std::vector<float> values = AnyValues<float>(count, static_cast<uint64_t>(count));
      std::vector<float> expected;
      for (const float value : values) {
        volatile float quotient = value / divisor;
        expected.push_back(quotient == quotient ? quotient : CanonicalNan<float>());
      }
      Divide(values.data(), divisor, count, GetParam());
      ExpectSameBits(values, expected, absl::StrCat("/ ", divisor));
    }
  }
}

TEST(FoldDeathTest, WhatCannotBeFoldedDies) {
  float value = 0.0F;
  EXPECT_DEATH(Fold(Dtype::kF32, ReduceOp::kSum, &value, &value, -1), "count >= 0");
  EXPECT_DEATH(Fold(static_cast<Dtype>(7), ReduceOp::kSum, &value, &value, 1), "unknown dtype 7");
  EXPECT_DEATH(Fold(Dtype::kU8, static_cast<ReduceOp>(5), &value, &value, 1),
               "unknown reduction 5");
}

TEST(CanonicalNanTest, IsAsPromised) {
  EXPECT_EQ(Bits(CanonicalNan<float>()), 0x7fc00000U);
  EXPECT_EQ(Bits(CanonicalNan<double>()), 0x7ff8000000000000U);
  EXPECT_EQ(CanonicalNan<F16>().bits, 0x7e00);
  EXPECT_EQ(CanonicalNan<Bf16>().bits, 0x7fc0);
}

TEST(IsaTest, BestIsaIsSupportedAndBaselineAlwaysIs) {
  EXPECT_TRUE(Supported(Isa::kBaseline));
  EXPECT_TRUE(Supported(BestIsa()));
}

TEST(DtypeTest, NamesAndSizes) {
  std::string names;
  for (const Dtype dtype : kDtypes) absl::StrAppend(&names, NameOf(dtype), ":", SizeOf(dtype), " ");
  EXPECT_EQ(names, "f32:4 i64:8 f64:8 f16:2 bf16:2 i32:4 u8:1 ");
  names.clear();
  for (const ReduceOp op : kOps) absl::StrAppend(&names, NameOf(op), " ");
  EXPECT_EQ(names, "sum min max prod ");
}

}  // namespace
}  // namespace lockstep
