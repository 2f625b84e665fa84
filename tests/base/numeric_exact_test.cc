#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/numeric/exact.h"
#include "tests/base/numeric_exact_oracle.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

constexpr int32_t kWorlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 33, 1000};

TEST(ExactBlocksTest, RestartAtEachTensorAndMayBeShort) {
  EXPECT_EQ(CountExactBlocks(Counts{}), 0);
  EXPECT_EQ(CountExactBlocks(Counts{0, 0}), 0);
  EXPECT_EQ(CountExactBlocks(Counts{1}), 1);
  EXPECT_EQ(CountExactBlocks(Counts{1024}), 1);
  EXPECT_EQ(CountExactBlocks(Counts{1025}), 2);
  EXPECT_EQ(CountExactBlocks(Counts{1500, 0, 3, 1024, 1025}), 6);
}

// n ranks quantise values of every kind, on each instruction set.
class ExactTest : public testing::TestWithParam<Isa> {
 protected:
  Isa isa() const { return GetParam(); }

  template <typename T>
  void ExpectExponent(float value, int32_t expected) const {
    for (const float sign : {1.0F, -1.0F}) {
      const std::vector<T> values = {FromFloat<T>(0.0F), FromFloat<T>(sign * value)};
      EXPECT_EQ(Exponents(values, {2}, isa()), std::vector<int32_t>{expected})
          << NameOf(DtypeOf(T{})) << " " << value;
    }
  }

  template <typename T>
  void QuantisesAndRestoresAsTheFormula(const std::vector<T>& values, const Counts& counts) const {
    const auto exponents = Exponents(values, counts, isa());
    std::vector<int32_t> exponent_of;  // element
    size_t block = 0;
    for (const int64_t count : counts) {
      for (int64_t i = 0; i < count; ++i) {
        exponent_of.push_back(exponents[block + static_cast<size_t>(i / 1024)]);
      }
      block += static_cast<size_t>((count + 1023) / 1024);
    }
    for (const int32_t n : kWorlds) {
      const std::string where = absl::StrCat(NameOf(DtypeOf(T{})), ", ", n, " ranks");
      std::vector<int64_t> once(values.size(), 77);
      std::vector<int64_t> added(values.size(), 77);
      ExactQuantise(DtypeOf(T{}), values.data(), counts, exponents, {.world_size = n}, once, isa());
      ExactQuantise(DtypeOf(T{}), values.data(), counts, exponents, {.world_size = n, .add = true},
                    added, isa());
      std::vector<T> restored(values.size());
      ExactRestore(DtypeOf(T{}), once, counts, exponents,
                   {.world_size = n, .divisor = static_cast<double>(n)}, restored.data(), isa());
      std::vector<int64_t> expected;
      std::vector<int64_t> expected_added;
      std::vector<T> expected_restored;
      for (size_t i = 0; i < values.size(); ++i) {
        expected.push_back(QuantiseOne(ToFloat(values[i]), exponent_of[i], n));
        expected_added.push_back(expected[i] + 77);
        expected_restored.push_back(
            FromFloat<T>(RestoreOne(expected[i], exponent_of[i], n, static_cast<double>(n))));
      }
      ExpectSameBits(once, expected, where);
      ExpectSameBits(added, expected_added, where + ", added");
      ExpectSameBits(restored, expected_restored, where + ", restored");
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, ExactTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(ExactTest, ExponentIsFrexps) {
  ExpectExponent<float>(1.0F, 1);
  ExpectExponent<float>(0x1.fffffep-1F, 0);
  ExpectExponent<float>(0.5F, 0);
  ExpectExponent<float>(0x1p-126F, -125);
  ExpectExponent<float>(0x1p-127F, -126);
  ExpectExponent<float>(0x1p-149F, kExactExponentMin);
  ExpectExponent<float>(kLargest, kExactExponentMax);
  ExpectExponent<F16>(0x1p-24F, -23);
  ExpectExponent<F16>(65504.0F, 16);
  ExpectExponent<Bf16>(0x1p-133F, -132);
  ExpectExponent<Bf16>(0x1.fep127F, 128);
  ExpectExponent<float>(0.0F, kZeroBlock);
  ExpectExponent<Bf16>(0.0F, kZeroBlock);
  ExpectExponent<float>(kInfinity, kNonFiniteBlock);
  ExpectExponent<F16>(kInfinity, kNonFiniteBlock);
  ExpectExponent<float>(std::numeric_limits<float>::quiet_NaN(), kNonFiniteBlock);
  ExpectExponent<Bf16>(std::numeric_limits<float>::quiet_NaN(), kNonFiniteBlock);
}

TEST_P(ExactTest, EachBlockHasItsOwnExponent) {
  std::vector<float> values(1500 + 3 + 1024 + 1025, 0x1p-30F);
  const Counts counts = {1500, 0, 3, 1024, 1025};
  values[0] = 1.0F;          // block 0
  values[1499] = -2.0F;      // block 1, its last element
  values[1500] = 4.0F;       // block 2, the tensor of three
  values[1503] = -8.0F;      // block 3
  values[2526] = 16.0F;      // its last
  values[3551] = kInfinity;  // block 5, an element alone
  EXPECT_EQ(Exponents(values, counts, isa()),
            (std::vector<int32_t>{1, 2, 3, 5, -29, kNonFiniteBlock}));
}

TEST_P(ExactTest, TiesGoToEven) {
  // One rank, E = 1: the grid is 2^-61.
  const std::vector<float> values = {1.0F,      0x1p-62F,        0x3p-62F,        0x5p-62F,
                                     -0x1p-62F, -0x3p-62F,       -0x5p-62F,       0x3p-63F,
                                     0x1p-61F,  0x1.000002p-29F, 0x1.800002p-30F, -0.0F};
  std::vector<int64_t> quantised(values.size());
  ExactQuantise(Dtype::kF32, values.data(), Counts{12}, std::vector<int32_t>{1}, {.world_size = 1},
                quantised, isa());
  EXPECT_EQ(quantised, (std::vector<int64_t>{int64_t{1} << 61, 0, 2, 2, 0, -2, -2, 1, 1,
                                             (int64_t{1} << 32) + (1 << 9),
                                             (int64_t{3} << 30) + (1 << 8), 0}));
}

TEST_P(ExactTest, EveryKindOfValueFollowsTheFormula) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    QuantisesAndRestoresAsTheFormula(RandomRanks<float>(1, 2600, seed, 100)[0],
                                     {1500, 0, 76, 1024});
    QuantisesAndRestoresAsTheFormula(RandomRanks<F16>(1, 1100, seed)[0], {1100});
    QuantisesAndRestoresAsTheFormula(RandomRanks<Bf16>(1, 1100, seed, 100)[0], {1100});
  }
}

// Over all magnitudes at once: in tensors of one element every exponent occurs, in short ones every
// distance to the block's largest.
TEST_P(ExactTest, EveryExponentFollowsTheFormula) {
  std::vector<float> values;
  for (int exponent = -149; exponent < 128; ++exponent) {
    values.push_back(std::ldexp(1.0F, exponent));
    values.push_back(-std::ldexp(0x1.fffffep0F, exponent));
    values.push_back(std::ldexp(0x1.555556p0F, exponent));
  }
  const auto count = static_cast<int64_t>(values.size());
  QuantisesAndRestoresAsTheFormula(values, Counts(values.size(), 1));
  QuantisesAndRestoresAsTheFormula(values, Counts(values.size() / 3, 3));
  QuantisesAndRestoresAsTheFormula(values, {count / 2, count - count / 2});
}

TEST_P(ExactTest, EveryLengthFollowsTheFormula) {
  for (int64_t count = 0; count <= 70; ++count) {
    const auto seed = static_cast<uint64_t>(count);
    QuantisesAndRestoresAsTheFormula(RandomRanks<float>(1, count, seed)[0], {count});
    QuantisesAndRestoresAsTheFormula(RandomRanks<Bf16>(1, count, seed)[0], {0, count});
  }
}

// All 64 bits of the sum, not only those that one rank's values reach.
TEST_P(ExactTest, AnySumIsRestoredAsTheFormulaSays) {
  const int64_t count = 5000;
  auto sums = AnyValues<int64_t>(count, 5);
  int shift = 0;
  for (int64_t& sum : sums) sum >>= (shift++ % 64);
  const std::vector<int32_t> exponents = {1, -148, 128, -60, 62};
  for (const double divisor : {1.0, 2.0, 3.0, 1000.0}) {
    std::vector<float> expected;
    for (size_t i = 0; i < sums.size(); ++i) {
      expected.push_back(RestoreOne(sums[i], exponents[i / 1024], 3, divisor));
    }
    std::vector<float> actual(sums.size());
    ExactRestore(Dtype::kF32, sums, Counts{count}, exponents, {.world_size = 3, .divisor = divisor},
                 actual.data(), isa());
    ExpectSameBits(actual, expected, absl::StrCat("/ ", divisor));
  }
}

// Quotients halfway between two floats: a product with the reciprocal falls to one side of them.
TEST_P(ExactTest, DivisionIsADivision) {
  std::vector<int64_t> sums;
  std::vector<float> expected;
  for (int64_t odd = (1 << 25) - 1; sums.size() < 1000; odd -= 2) {  // floats are even here
    sums.push_back(49 * odd);
    expected.push_back(static_cast<float>(odd % 4 == 1 ? odd - 1 : odd + 1));
  }
  std::vector<float> actual(sums.size());
  const std::vector<int32_t> exponents = {FractionBits(49)};  // sums are in units of 1
  ExactRestore(Dtype::kF32, sums, Counts{1000}, exponents, {.world_size = 49, .divisor = 49},
               actual.data(), isa());
  ExpectSameBits(actual, expected, "ties");
}

TEST_P(ExactTest, NonFiniteAndZeroBlocksAreQuantisedToZero) {
  const std::vector<float> values = {kInfinity, 1.0F, 2.0F};
  for (const int32_t mark : {kZeroBlock, kNonFiniteBlock}) {
    std::vector<int64_t> quantised(3, 5);
    const std::vector<int32_t> exponents = {mark};
    ExactQuantise(Dtype::kF32, values.data(), Counts{3}, exponents, {.world_size = 2, .add = true},
                  quantised, isa());
    EXPECT_EQ(quantised, std::vector<int64_t>(3, 5));
    ExactQuantise(Dtype::kF32, values.data(), Counts{3}, exponents, {.world_size = 2}, quantised,
                  isa());
    EXPECT_EQ(quantised, std::vector<int64_t>(3, 0));
  }
}

TEST(ExactDtypeTest, OnlyFloatsUpToF32) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) EXPECT_TRUE(HasExact(dtype));
  for (const Dtype dtype : {Dtype::kF64, Dtype::kI32, Dtype::kI64, Dtype::kU8}) {
    EXPECT_FALSE(HasExact(dtype));
  }
  EXPECT_TRUE(IsExactExponent(kZeroBlock));
  EXPECT_TRUE(IsExactExponent(kNonFiniteBlock));
  EXPECT_TRUE(IsExactExponent(-148));
  EXPECT_TRUE(IsExactExponent(128));
  EXPECT_FALSE(IsExactExponent(-149));
  EXPECT_FALSE(IsExactExponent(129));
}

TEST(ExactDeathTest, BrokenPreconditionsDie) {
  std::vector<float> values = {1.0F};
  std::vector<int64_t> quantised(1);
  std::vector<int32_t> exponents = {1};
  const auto quantise = [&](Dtype dtype, const Counts& counts, int32_t world_size) {
    ExactQuantise(dtype, values.data(), counts, exponents, {.world_size = world_size}, quantised);
  };
  EXPECT_DEATH(quantise(Dtype::kF64, {1}, 1), "EXACT has no f64");
  EXPECT_DEATH(quantise(Dtype::kF32, {2}, 1), "elements");
  EXPECT_DEATH(quantise(Dtype::kF32, {1, 0, -1, 1}, 1), "count >= 0");
  EXPECT_DEATH(quantise(Dtype::kF32, {1}, 0), "world_size >= 1");
  exponents = {129};
  EXPECT_DEATH(quantise(Dtype::kF32, {1}, 1), "129");
  exponents = {1, 1};
  EXPECT_DEATH(quantise(Dtype::kF32, {1}, 1), "exponents");
  EXPECT_DEATH(ExactRestore(Dtype::kF32, quantised, Counts{1}, std::vector<int32_t>{1},
                            {.world_size = 1, .divisor = 0}, values.data()),
               "divisor");
}

}  // namespace
}  // namespace lockstep
