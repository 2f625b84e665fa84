// numeric_exact_oracle.h: the formulas of base/numeric/exact.h by the C library, in the 80-bit type
// where there is one, and whole exact sums over ranks for the tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/numeric/exact.h"
#include "tests/base/numeric_half_oracle.h"
#include "tests/base/numeric_values.h"

namespace lockstep {

using Counts = std::vector<int64_t>;

inline constexpr float kLargest = std::numeric_limits<float>::max();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
float ToFloat(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return DecodeHalf(value);
  }
}

template <typename T>
T FromFloat(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return EncodeHalf<T>(static_cast<double>(value));
  }
}

template <typename T>
std::vector<int32_t> Exponents(const std::vector<T>& values, const Counts& counts,
                               Isa isa = BestIsa()) {
  std::vector<int32_t> exponents(static_cast<size_t>(CountExactBlocks(counts)));
  ExactExponents(DtypeOf(T{}), values.data(), counts, exponents, isa);
  return exponents;
}

// What the ranks' exchange of exponents does.
template <typename T>
std::vector<int32_t> AgreedExponents(const std::vector<std::vector<T>>& ranks,
                                     const Counts& counts) {
  std::vector<int32_t> agreed = Exponents(ranks[0], counts);
  for (const auto& values : ranks) {
    const auto own = Exponents(values, counts);
    for (size_t i = 0; i < own.size(); ++i) agreed[i] = std::max(agreed[i], own[i]);
  }
  return agreed;
}

// The whole way of one call. `order` is the order in which ranks are added.
struct Call {
  Counts counts;
  double divisor = 1;
  Isa isa = BestIsa();
};
template <typename T>
std::vector<T> Reduce(const std::vector<std::vector<T>>& ranks, const std::vector<size_t>& order,
                      const Call& call) {
  const auto exponents = AgreedExponents(ranks, call.counts);
  const auto n = static_cast<int32_t>(ranks.size());
  std::vector<int64_t> sum(ranks[0].size());
  for (size_t i = 0; i < order.size(); ++i) {
    ExactQuantise(DtypeOf(T{}), ranks[order[i]].data(), call.counts, exponents,
                  {.world_size = n, .add = i > 0}, sum, call.isa);
  }
  std::vector<T> result(ranks[0].size());
  ExactRestore(DtypeOf(T{}), sum, call.counts, exponents,
               {.world_size = n, .divisor = call.divisor}, result.data(), call.isa);
  return result;
}

template <typename T>
std::vector<T> Reduce(const std::vector<std::vector<T>>& ranks, const Call& call) {
  std::vector<size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return Reduce(ranks, order, call);
}

// Finite values over `spread` powers of two, so that sums in floats would depend on the order.
template <typename T>
std::vector<std::vector<T>> RandomRanks(size_t n, int64_t count, uint64_t seed, int spread = 20) {
  std::vector<std::vector<T>> ranks(n);
  for (size_t rank = 0; rank < n; ++rank) {
    Random random(seed, rank);
    for (int64_t i = 0; i < count; ++i) {
      const auto exponent = -static_cast<int>(random.Below(static_cast<uint32_t>(spread)));
      ranks[rank].push_back(FromFloat<T>(std::ldexp(random.Uniform() - 0.5F, exponent)));
    }
  }
  return ranks;
}

inline int32_t FractionBits(int64_t n) {
  int32_t bits = 62;
  for (int64_t power = 1; power < n; power *= 2) --bits;
  return bits;
}

inline int64_t QuantiseOne(float value, int32_t exponent, int64_t n) {
  if (exponent == kZeroBlock || exponent == kNonFiniteBlock) return 0;
  return std::llrint(std::ldexp(static_cast<long double>(value), FractionBits(n) - exponent));
}
inline float RestoreOne(int64_t sum, int32_t exponent, int64_t n, double divisor) {
  if (exponent == kZeroBlock) return 0.0F;
  if (exponent == kNonFiniteBlock) return CanonicalNan<float>();
  volatile auto rounded = static_cast<double>(sum);
  volatile double quotient = std::ldexp(rounded, exponent - FractionBits(n)) / divisor;
  return static_cast<float>(quotient);
}

}  // namespace lockstep
