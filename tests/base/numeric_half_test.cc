#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/numeric/convert.h"
#include "base/numeric/half.h"
#include "tests/base/numeric_half_oracle.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

template <typename From, typename To>
std::vector<To> ConvertAll(const std::vector<From>& values, Isa isa) {
  std::vector<To> converted(values.size());
  Convert(DtypeOf(From{}), values.data(), DtypeOf(To{}), converted.data(),
          static_cast<int64_t>(values.size()), isa);
  return converted;
}

template <typename Half>
void EveryPatternWidens(Isa isa) {
  std::vector<Half> halves;
  std::vector<float> expected;
  std::vector<Half> back;
  for (int bits = 0; bits < 65536; ++bits) {
    const Half half = {static_cast<uint16_t>(bits)};
    halves.push_back(half);
    expected.push_back(DecodeHalf(half));
    back.push_back(std::isnan(expected.back()) ? CanonicalNan<Half>() : half);
  }
  const auto floats = ConvertAll<Half, float>(halves, isa);
  ExpectSameBits(floats, expected, "widened");
  ExpectSameBits(ConvertAll<float, Half>(floats, isa), back, "there and back");
}

// At the middle between two neighbours, on both sides of it, and at the neighbours themselves; the
// last middle is the one between the largest value and what would come next.
template <typename Half>
void EveryMiddleRoundsToEven(Isa isa) {
  const HalfFormat& format = FormatOf(Half{});
  std::vector<float> floats;
  std::vector<Half> expected;
  const auto add = [&](double value, int bits) {
    floats.push_back(static_cast<float>(value));
    expected.push_back({static_cast<uint16_t>(bits)});
    floats.push_back(static_cast<float>(-value));
    expected.push_back({static_cast<uint16_t>(bits | 0x8000)});
  };
  for (int bits = 0; bits < format.infinity(); ++bits) {
    const double middle = (format.Magnitude(bits) + format.Magnitude(bits + 1)) / 2;
    const auto exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle) << bits;
    const float infinity = std::numeric_limits<float>::infinity();
    add(static_cast<double>(std::nextafter(exact, 0.0F)), bits);
    add(middle, bits % 2 == 0 ? bits : bits + 1);
    add(static_cast<double>(std::nextafter(exact, infinity)), bits + 1);
  }
  ExpectSameBits(ConvertAll<float, Half>(floats, isa), expected, "narrowed");
}

template <typename Half>
void AnyFloatNarrows(Isa isa) {
  const auto floats = AnyValues<float>(50000, 1);
  std::vector<Half> expected;
  expected.reserve(floats.size());
  for (const float value : floats) expected.push_back(EncodeHalf<Half>(static_cast<double>(value)));
  ExpectSameBits(ConvertAll<float, Half>(floats, isa), expected, "narrowed");
}

template <typename T>
void EveryLengthAndAddressConverts(Isa isa) {
  for (int64_t count = 0; count <= 64; ++count) {
    const auto floats = AnyValues<float>(count, static_cast<uint64_t>(count));
    const auto expected = ConvertAll<float, T>(floats, Isa::kBaseline);
    const auto back = ConvertAll<T, float>(expected, Isa::kBaseline);
    for (const int64_t shift : {int64_t{0}, int64_t{1}, count}) {
      const std::string where = absl::StrCat("count ", count, " at +", shift);
      ShiftedArray<float> from(floats, shift);
      ShiftedArray<T> to(std::vector<T>(floats.size()), 64 - shift);
      Convert(Dtype::kF32, from.data(), DtypeOf(T{}), to.data(), count, isa);
      ExpectSameBits(to.Read(), expected, where);
      Convert(DtypeOf(T{}), to.data(), Dtype::kF32, from.data(), count, isa);
      ExpectSameBits(from.Read(), back, where + " and back");
    }
  }
}

class ConvertTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, ConvertTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(ConvertTest, EveryF16PatternWidens) { EveryPatternWidens<F16>(GetParam()); }
TEST_P(ConvertTest, EveryBf16PatternWidens) { EveryPatternWidens<Bf16>(GetParam()); }
TEST_P(ConvertTest, EveryMiddleRoundsToEvenInF16) { EveryMiddleRoundsToEven<F16>(GetParam()); }
TEST_P(ConvertTest, EveryMiddleRoundsToEvenInBf16) { EveryMiddleRoundsToEven<Bf16>(GetParam()); }
TEST_P(ConvertTest, AnyFloatNarrowsToF16) { AnyFloatNarrows<F16>(GetParam()); }
TEST_P(ConvertTest, AnyFloatNarrowsToBf16) { AnyFloatNarrows<Bf16>(GetParam()); }

TEST_P(ConvertTest, EveryLengthAndAddressGivesTheSameBits) {
  EveryLengthAndAddressConverts<F16>(GetParam());
  EveryLengthAndAddressConverts<Bf16>(GetParam());
  EveryLengthAndAddressConverts<double>(GetParam());
}

TEST_P(ConvertTest, KnownHalves) {
  const std::vector<float> floats = {1.0F, -2.0F, 65504.0F, 65520.0F, 0x1p-24F, 0x1p-25F, 0.1F};
  const std::vector<F16> f16 = {{0x3c00}, {0xc000}, {0x7bff}, {0x7c00},
                                {0x0001}, {0x0000}, {0x2e66}};
  ExpectSameBits(ConvertAll<float, F16>(floats, GetParam()), f16, "f16");
  const std::vector<Bf16> bf16 = {{0x3f80}, {0xc000}, {0x4780}, {0x4780},
                                  {0x3380}, {0x3300}, {0x3dcd}};
  ExpectSameBits(ConvertAll<float, Bf16>(floats, GetParam()), bf16, "bf16");
}

TEST_P(ConvertTest, DoublesRoundOnceAndWidenExactly) {
  const std::vector<double> doubles = {1 + 0x1p-24,    1 + 0x1p-24 + 0x1p-50,
                                       1 + 0x3p-24,    0x1p-150,
                                       0x1.8p-149,     0x1.fffffefp127,
                                       0x1.ffffffp127, -0.0,
                                       -1e300,         std::bit_cast<double>(0xfff0000000000001U)};
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> floats = {1.0F,         1 + 0x1p-23F,
                                     1 + 0x1p-22F, 0.0F,
                                     0x1p-148F,    0x1.fffffep127F,
                                     infinity,     -0.0F,
                                     -infinity,    std::bit_cast<float>(0x7fc00000U)};
  ExpectSameBits(ConvertAll<double, float>(doubles, GetParam()), floats, "narrowed");
  const std::vector<float> narrow = {0x1p-149F, -0.0F, 0.1F, -infinity,
                                     std::bit_cast<float>(0xffc00001U)};
  const std::vector<double> wide = {0x1p-149, -0.0, 0x1.99999ap-4, -HUGE_VAL,
                                    std::bit_cast<double>(0x7ff8000000000000U)};
  ExpectSameBits(ConvertAll<float, double>(narrow, GetParam()), wide, "widened");
}

// The functions by themselves: Convert makes NaNs canonical once more.
TEST(HalfTest, EveryPatternWidensAndComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float f16 = F16ToF32(half);
    const float bf16 = Bf16ToF32(half);
    const float expected_f16 = DecodeHalf(F16{half});
    const float expected_bf16 = DecodeHalf(Bf16{half});
    ASSERT_EQ(Bits(f16), Bits(expected_f16)) << bits;
    ASSERT_EQ(Bits(bf16), Bits(expected_bf16)) << bits;
    ASSERT_EQ(F32ToF16(f16), std::isnan(f16) ? CanonicalNan<F16>().bits : half) << bits;
    ASSERT_EQ(F32ToBf16(bf16), std::isnan(bf16) ? CanonicalNan<Bf16>().bits : half) << bits;
  }
}

TEST(ConvertDeathTest, OtherPairsDie) {
  float value = 0.0F;
  EXPECT_DEATH(Convert(Dtype::kF16, &value, Dtype::kBf16, &value, 1), "f16 to bf16");
  EXPECT_DEATH(Convert(Dtype::kF32, &value, Dtype::kI32, &value, 1), "f32 to i32");
  EXPECT_DEATH(Convert(Dtype::kF32, &value, Dtype::kF64, &value, -1), "count >= 0");
}

}  // namespace
}  // namespace lockstep
