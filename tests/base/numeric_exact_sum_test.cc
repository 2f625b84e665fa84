#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/numeric/exact.h"
#include "tests/base/numeric_exact_oracle.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

// Whole sums over ranks, on each instruction set.
class ExactSumTest : public testing::TestWithParam<Isa> {
 protected:
  Isa isa() const { return GetParam(); }

  template <typename T>
  void AnyOrderGivesTheSameBits() const {
    for (const int32_t world : {2, 3, 4, 5, 7, 33}) {
      const auto n = static_cast<size_t>(world);
      const Call call = {.counts = {1500, 3}, .divisor = static_cast<double>(n), .isa = isa()};
      const auto ranks = RandomRanks<T>(n, 1503, n);
      const auto expected = Reduce(ranks, call);
      std::vector<size_t> order(n);
      std::iota(order.begin(), order.end(), size_t{0});
      Random random(n, 0);
      for (int round = 0; round < 5; ++round) {
        for (size_t i = n - 1; i > 0; --i) {
          std::swap(order[i], order[random.Below(static_cast<uint32_t>(i + 1))]);
        }
        ExpectSameBits(Reduce(ranks, order, call), expected, absl::StrCat(n, " ranks"));
      }
    }
  }

  // Block 1 of three is not finite on one rank, where others hold plain values.
  template <typename T>
  void NonFiniteBlockIsNanAndOthersStay(float culprit) const {
    const Call call = {.counts = {1024, 1024, 5}, .divisor = 3, .isa = isa()};
    auto ranks = RandomRanks<T>(3, 2053, 9);
    auto expected = Reduce(ranks, call);
    std::fill(expected.begin() + 1024, expected.begin() + 2048, CanonicalNan<T>());
    ranks[1][1500] = FromFloat<T>(culprit);
    ExpectSameBits(Reduce(ranks, call), expected, absl::StrCat(culprit));
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, ExactSumTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(ExactSumTest, AnyOrderOfRanksGivesTheSameBits) {
  AnyOrderGivesTheSameBits<float>();
  AnyOrderGivesTheSameBits<F16>();
  AnyOrderGivesTheSameBits<Bf16>();
}

// The inputs of the test above are worth something only if plain sums disagree on them.
TEST(ExactInputTest, PlainSumsDependOnTheOrder) {
  const auto ranks = RandomRanks<float>(3, 1503, 3);
  int differ = 0;
  for (size_t i = 0; i < 1503; ++i) {
    const float forward = (ranks[0][i] + ranks[1][i]) + ranks[2][i];
    const float backward = (ranks[2][i] + ranks[1][i]) + ranks[0][i];
    differ += forward != backward ? 1 : 0;
  }
  EXPECT_GT(differ, 100);
}

// Buckets and shards cut at block borders, chunks of the integers anywhere.
TEST_P(ExactSumTest, AnyCutGivesTheSameBits) {
  const auto ranks = RandomRanks<float>(3, 3000, 4);
  const auto whole = Reduce(ranks, {.counts = {2500, 500}, .divisor = 3, .isa = isa()});
  ExpectSameBits(Reduce(ranks, {.counts = {1024, 1476, 500}, .divisor = 3, .isa = isa()}), whole,
                 "one shard border");
  std::vector<float> parts;
  for (const auto& [first, count] :
       {std::pair<int64_t, int64_t>{0, 2048}, {2048, 452}, {2500, 500}}) {
    std::vector<std::vector<float>> slices;
    slices.reserve(ranks.size());
    for (const auto& values : ranks) {
      slices.emplace_back(values.begin() + first, values.begin() + first + count);
    }
    const auto part = Reduce(slices, {.counts = {count}, .divisor = 3, .isa = isa()});
    parts.insert(parts.end(), part.begin(), part.end());
  }
  ExpectSameBits(parts, whole, "three buckets");
}

TEST_P(ExactSumTest, LargestMagnitudesOfAllRanksFitIntoTheSum) {
  for (const int32_t n : {1, 2, 3, 4, 5, 6, 7, 8, 33, 1000, 1024, 1 << 20}) {
    for (const float value : {0x1.fffffep3F, -0x1.fffffep3F, kLargest, -kLargest, 0x1p-149F}) {
      const std::vector<float> values(9, value);
      const auto exponents = Exponents(values, {9});
      std::vector<int64_t> one(9);
      ExactQuantise(Dtype::kF32, values.data(), Counts{9}, exponents, {.world_size = n}, one,
                    isa());
      const auto total = static_cast<__int128>(one[0]) * n;
      ASSERT_LE(std::abs(one[0]), int64_t{1} << FractionBits(n));
      ASSERT_LE(total, static_cast<__int128>(std::numeric_limits<int64_t>::max()));
      ASSERT_GE(total, static_cast<__int128>(std::numeric_limits<int64_t>::min()));
      std::vector<float> mean(9);
      ExactRestore(Dtype::kF32, std::vector<int64_t>(9, static_cast<int64_t>(total)), Counts{9},
                   exponents, {.world_size = n, .divisor = static_cast<double>(n)}, mean.data(),
                   isa());
      ExpectSameBits(mean, values, absl::StrCat("mean of ", n, " times ", value));
    }
  }
}

TEST_P(ExactSumTest, SubnormalsAddUpAndLargeSumsOverflowToInfinity) {
  const auto sum_of_three = [&](float value) {
    const std::vector<std::vector<float>> ranks(3, {value, 0.0F});
    return Reduce(ranks, {.counts = {2}, .isa = isa()});
  };
  ExpectSameBits(sum_of_three(0x1p-149F), {0x3p-149F, 0.0F}, "smallest");
  ExpectSameBits(sum_of_three(-0x1p-149F), {-0x3p-149F, 0.0F}, "smallest, negative");
  ExpectSameBits(sum_of_three(kLargest), {kInfinity, 0.0F}, "largest");
  const std::vector<std::vector<F16>> halves(3, {F16{0x7bff}, F16{0x0001}});
  ExpectSameBits(Reduce(halves, {.counts = {2}, .isa = isa()}), {F16{0x7c00}, F16{0x0003}}, "f16");
}

TEST_P(ExactSumTest, ZerosBecomePlusZero) {
  const std::vector<std::vector<float>> ranks(2, std::vector<float>(9, -0.0F));
  ExpectSameBits(Reduce(ranks, {.counts = {9}, .isa = isa()}), std::vector<float>(9, 0.0F), "all");
  const std::vector<std::vector<float>> mixed = {{-0.0F, 1.0F, 1.5F}, {-0.0F, -1.0F, 1.5F}};
  ExpectSameBits(Reduce(mixed, {.counts = {3}, .isa = isa()}), {0.0F, 0.0F, 3.0F}, "some");
  const std::vector<std::vector<Bf16>> halves(2, std::vector<Bf16>(9, Bf16{0x8000}));
  ExpectSameBits(Reduce(halves, {.counts = {9}, .isa = isa()}), std::vector<Bf16>(9), "bf16");
}

TEST_P(ExactSumTest, NonFiniteBlockIsNanAndOthersStay) {
  for (const float culprit : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    NonFiniteBlockIsNanAndOthersStay<float>(culprit);
    NonFiniteBlockIsNanAndOthersStay<F16>(culprit);
    NonFiniteBlockIsNanAndOthersStay<Bf16>(culprit);
  }
}

// Inputs are multiples of 2^-80 below 1, so that 128 bits hold their sum exactly.
TEST_P(ExactSumTest, ErrorIsBelowOneGridStepARankAndOneRounding) {
  for (const int32_t n : {1, 2, 3, 5, 8, 33, 100}) {
    const auto ranks = RandomRanks<float>(static_cast<size_t>(n), 1024, 8, 56);
    const auto exponent = AgreedExponents(ranks, {1024})[0];
    const auto sums = Reduce(ranks, {.counts = {1024}, .isa = isa()});
    for (size_t i = 0; i < sums.size(); ++i) {
      __int128 exact = 0;
      for (const auto& values : ranks) {
        const long double scaled = std::ldexp(static_cast<long double>(values[i]), 80);
        ASSERT_EQ(scaled, std::rint(scaled));
        exact += static_cast<__int128>(scaled);
      }
      const long double truth = std::ldexp(static_cast<long double>(exact), -80);
      const float next = std::nextafter(std::fabs(sums[i]), kInfinity);
      const long double half_ulp = (static_cast<long double>(next) - std::fabs(sums[i])) / 2;
      const long double grid = std::ldexp(1.0L, exponent - FractionBits(n));
      ASSERT_LE(std::fabs(static_cast<long double>(sums[i]) - truth), n * grid + half_ulp)
          << n << " ranks, element " << i;
    }
  }
}

}  // namespace
}  // namespace lockstep
