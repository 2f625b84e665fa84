// exact.h: sums whose bits depend on the addends alone, never on the order of additions (EXACT).
// Values are rounded once to a grid that all ranks share, then added as integers. The grid is
// agreed per block of 1,024 elements, counted from the start of each tensor (the last block of a
// tensor may be short). E of a block is frexp's exponent of its largest magnitude over all ranks
// (|g| < 2^E, subnormals included); kZeroBlock when all are zero, kNonFiniteBlock when one is not
// finite, so that the maximum over ranks keeps it.
//   q = llrint(ldexp(double(g), F - E)),  F = 62 - ceil(log2 n);  sum in int64;
//   result = float(ldexp(double(q), E - F) / divisor), the division once, after the sum.
// Then |q| <= 2^F and n of them fit into int64. -0.0 becomes +0.0, a zero block +0.0, every element
// of a non-finite block the canonical NaN. f32, f16, bf16; an f64 would lose bits, so callers
// refuse it. Units: elements. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/numeric/dtype.h"
#include "base/numeric/isa.h"

namespace lockstep {

inline constexpr int64_t kExactBlockElements = 1024;
inline constexpr int32_t kZeroBlock = std::numeric_limits<int32_t>::min();
inline constexpr int32_t kNonFiniteBlock = std::numeric_limits<int32_t>::max();
inline constexpr int32_t kExactExponentMin = -148;  // of 2^-149
inline constexpr int32_t kExactExponentMax = 128;   // of the largest float

// Whether an exponent that came from outside may be passed on; others die.
constexpr bool IsExactExponent(int32_t exponent) {
  return exponent == kZeroBlock || exponent == kNonFiniteBlock ||
         (exponent >= kExactExponentMin && exponent <= kExactExponentMax);
}

constexpr bool HasExact(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBf16;
}

// `tensor_counts`: elements of each tensor (or of each part that starts at a block border), in the
// order of the buffer; their sum is the buffer's length; empty tensors have no block.
int64_t CountExactBlocks(std::span<const int64_t> tensor_counts);

// One exponent a block. REQUIRES: HasExact(dtype); exponents.size() = CountExactBlocks.
void ExactExponents(Dtype dtype, const void* values, std::span<const int64_t> tensor_counts,
                    std::span<int32_t> exponents, Isa isa = BestIsa());

// `exponents` are the maxima over all `world_size` ranks. `quantised` has one value an element; 0
// in a zero or non-finite block. With `add` it is added to what stands there, else it replaces it.
struct ExactQuantiseOptions {
  int32_t world_size = 1;
  bool add = false;
};
void ExactQuantise(Dtype dtype, const void* values, std::span<const int64_t> tensor_counts,
                   std::span<const int32_t> exponents, const ExactQuantiseOptions& options,
                   std::span<int64_t> quantised, Isa isa = BestIsa());

// The other way, after the sum over ranks. `divisor`: world_size for MEAN, 1 for SUM.
struct ExactRestoreOptions {
  int32_t world_size = 1;
  double divisor = 1;
};
void ExactRestore(Dtype dtype, std::span<const int64_t> quantised,
                  std::span<const int64_t> tensor_counts, std::span<const int32_t> exponents,
                  const ExactRestoreOptions& options, void* values, Isa isa = BestIsa());

}  // namespace lockstep
