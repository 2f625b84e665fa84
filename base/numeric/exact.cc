#include "base/numeric/exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "base/numeric/dispatch.h"
#include "base/numeric/element.h"
#include "base/numeric/magnitude.h"

namespace lockstep {
namespace {

using numeric::Dispatch;
using numeric::Load;
using numeric::Store;

// Loops run over blocks, and a block has a scale of its own. A scale is a power of two between
// 2^-210 and 2^210: |E - F| <= 148 + 62. A product of it and a value is what ldexp gives, without
// rounding, because no double gets subnormal or infinite: values are at least 2^-149 (or the
// integer 1) and quantised ones at most 2^63, so that products stay between 2^-359 and 2^273.
struct Block {
  int64_t first = 0;
  int64_t count = 0;
  size_t index = 0;
};

template <typename Function>
void ForEachBlock(std::span<const int64_t> tensor_counts, Function function) {
  Block block;
  for (const int64_t tensor : tensor_counts) {
    for (int64_t done = 0; done < tensor; done += block.count) {
      block.count = std::min(kExactBlockElements, tensor - done);
      function(block);
      block.first += block.count;
      ++block.index;
    }
  }
}

template <typename Function>
void WithElement(Dtype dtype, Function function) {
  switch (dtype) {
    case Dtype::kF32:
      return function(numeric::Native<float>());
    case Dtype::kF16:
      return function(numeric::F16());
    case Dtype::kBf16:
      return function(numeric::Bf16());
    default:
      CHECK(false) << "EXACT has no " << NameOf(dtype) << " " << static_cast<int>(dtype);
  }
}

void CheckSizes(std::span<const int64_t> tensor_counts, size_t exponents, size_t elements) {
  int64_t sum = 0;
  for (const int64_t count : tensor_counts) sum += count;
  CHECK_EQ(sum, static_cast<int64_t>(elements));
  CHECK_EQ(CountExactBlocks(tensor_counts), static_cast<int64_t>(exponents));
}

// F, the bits of a quantised value's magnitude.
int32_t FractionBits(int32_t world_size) {
  CHECK_GE(world_size, 1);
  const auto others = static_cast<uint32_t>(world_size - 1);
  return 62 - static_cast<int32_t>(std::bit_width(others));  // which is ceil(log2 world_size)
}

double PowerOfTwo(int32_t exponent, int32_t sign, int32_t fraction_bits) {
  CHECK(exponent >= kExactExponentMin && exponent <= kExactExponentMax) << exponent;
  return std::ldexp(1.0, sign * (exponent - fraction_bits));
}

// llrint for |x| <= 2^62, by additions, which every instruction set has for vectors. Next to
// 1.5 * 2^52 doubles are integers: adding it rounds, ties to even, and leaves the integer, in two's
// complement, in the low bits. That holds up to 2^51, so the upper half of x goes first. What is
// left is exact, being a multiple of x's last place and no larger than x, and has the ties of x,
// because 2^32 is even.
LOCKSTEP_INLINE uint64_t RoundToInteger(double x) {
  constexpr double kShift = 0x1.8p52;
  constexpr auto kShiftBits = std::bit_cast<uint64_t>(kShift);
  const double high = x * 0x1p-32 + kShift;
  const double low = x - (high - kShift) * 0x1p32 + kShift;
  return ((std::bit_cast<uint64_t>(high) - kShiftBits) << 32) +
         (std::bit_cast<uint64_t>(low) - kShiftBits);
}

// double(q), likewise for vectors. The halves of q become the low bits of 2^84 (whose ulp is 2^32;
// the sign bit, inverted, counts 2^63 more) and of 2^52. Only the last addition rounds.
LOCKSTEP_INLINE double ToDouble(uint64_t q) {
  const auto high = std::bit_cast<double>((q >> 32) ^ 0x4530000080000000U);
  const auto low = std::bit_cast<double>((q & 0xffffffffU) | 0x4330000000000000U);
  return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
}

template <typename Element, bool kAdd>
struct QuantiseBody {
  LOCKSTEP_INLINE static void Run(const std::byte* values, double scale, std::byte* quantised,
                                  int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(numeric::Read<Element>(values, i));
      const uint64_t base = kAdd ? Load<uint64_t>(quantised, i) : 0;
      Store(quantised, i, base + RoundToInteger(value * scale));
    }
  }
};

template <typename Element>
struct RestoreBody {
  LOCKSTEP_INLINE static void Run(const std::byte* quantised, double scale, double divisor,
                                  std::byte* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const double sum = ToDouble(Load<uint64_t>(quantised, i)) * scale;
      numeric::Write<Element>(values, i, static_cast<float>(sum / divisor));
    }
  }
};

}  // namespace

int64_t CountExactBlocks(std::span<const int64_t> tensor_counts) {
  int64_t blocks = 0;
  for (const int64_t count : tensor_counts) {
    CHECK_GE(count, 0);
    blocks += (count + kExactBlockElements - 1) / kExactBlockElements;
  }
  return blocks;
}

void ExactExponents(Dtype dtype, const void* values, std::span<const int64_t> tensor_counts,
                    std::span<int32_t> exponents, Isa isa) {
  CHECK_EQ(CountExactBlocks(tensor_counts), static_cast<int64_t>(exponents.size()));
  WithElement(dtype, [&](auto element) {
    using Element = decltype(element);
    const auto* from = static_cast<const std::byte*>(values);
    ForEachBlock(tensor_counts, [&](const Block& block) {
      const std::byte* begin = from + block.first * SizeOf(dtype);
      const auto largest = numeric::MaxMagnitude<Element>(begin, block.count, isa);
      int32_t exponent = kZeroBlock;
      if (largest >= Element::kInfinity) {
        exponent = kNonFiniteBlock;
      } else if (largest > 0) {
        const auto stored = std::bit_cast<typename Element::Stored>(largest);
        std::frexp(Element::Widen(stored), &exponent);
      }
      exponents[block.index] = exponent;
    });
  });
}

void ExactQuantise(Dtype dtype, const void* values, std::span<const int64_t> tensor_counts,
                   std::span<const int32_t> exponents, const ExactQuantiseOptions& options,
                   std::span<int64_t> quantised, Isa isa) {
  CheckSizes(tensor_counts, exponents.size(), quantised.size());
  const int32_t fraction_bits = FractionBits(options.world_size);
  WithElement(dtype, [&](auto element) {
    using Element = decltype(element);
    const auto* from = static_cast<const std::byte*>(values);
    ForEachBlock(tensor_counts, [&](const Block& block) {
      const int32_t exponent = exponents[block.index];
      int64_t* target = quantised.data() + block.first;
      if (exponent == kZeroBlock || exponent == kNonFiniteBlock) {
        if (!options.add) std::fill_n(target, block.count, 0);
        return;
      }
      const std::byte* begin = from + block.first * SizeOf(dtype);
      const double scale = PowerOfTwo(exponent, -1, fraction_bits);
      auto* to = reinterpret_cast<std::byte*>(target);
      if (options.add) {
        Dispatch<QuantiseBody<Element, true>>(isa, begin, scale, to, block.count);
      } else {
        Dispatch<QuantiseBody<Element, false>>(isa, begin, scale, to, block.count);
      }
    });
  });
}

void ExactRestore(Dtype dtype, std::span<const int64_t> quantised,
                  std::span<const int64_t> tensor_counts, std::span<const int32_t> exponents,
                  const ExactRestoreOptions& options, void* values, Isa isa) {
  CheckSizes(tensor_counts, exponents.size(), quantised.size());
  CHECK(std::isfinite(options.divisor) && options.divisor > 0) << options.divisor;
  const int32_t fraction_bits = FractionBits(options.world_size);
  WithElement(dtype, [&](auto element) {
    using Element = decltype(element);
    auto* to = static_cast<std::byte*>(values);
    ForEachBlock(tensor_counts, [&](const Block& block) {
      const int32_t exponent = exponents[block.index];
      std::byte* begin = to + block.first * SizeOf(dtype);
      if (exponent == kZeroBlock || exponent == kNonFiniteBlock) {
        const float value = exponent == kZeroBlock ? 0.0F : std::bit_cast<float>(kF32Nan);
        for (int64_t i = 0; i < block.count; ++i) numeric::Write<Element>(begin, i, value);
        return;
      }
      const auto* from = reinterpret_cast<const std::byte*>(quantised.data() + block.first);
      const double scale = PowerOfTwo(exponent, 1, fraction_bits);
      Dispatch<RestoreBody<Element>>(isa, from, scale, options.divisor, begin, block.count);
    });
  });
}

}  // namespace lockstep
