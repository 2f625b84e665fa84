// fold.h: the reductions that decide bits. target[i] = target[i] op source[i], one rounding each.
// Promise: an element's result depends on its two operands alone, never on its position, the
// length, the alignment, the thread count or the instruction set (no contraction, no
// reassociation). Integers wrap modulo 2^bits. f16 and bf16 are widened to f32, folded, and rounded
// back to nearest, ties to even. A NaN result is always the type's canonical one: f32 0x7fc00000,
// f64 0x7ff8000000000000, f16 0x7e00, bf16 0x7fc0. MIN and MAX are NaN if an operand is, and hold
// -0 < +0. AVG is no fold: sum, then Average. Dies on an `isa` that this processor lacks (isa.h,
// Supported) and on what support.h does not list. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/numeric/dtype.h"
#include "base/numeric/isa.h"

namespace lockstep {

// `source` and `target` hold `count` elements, may be unaligned, must not overlap in part.
void Fold(Dtype dtype, ReduceOp op, const void* source, void* target, int64_t count,
          Isa isa = BestIsa());

// Addresses of `count` elements each. A target may be a source, or else overlap none.
struct FoldOperands {
  std::span<const std::byte* const> sources;  // at least one
  std::span<std::byte* const> targets;
};
// Every target[i] = (sources[0][i] op sources[1][i]) op sources[2][i] ...: the bits of repeated
// Folds, but each byte is read and written once.
void FoldAll(Dtype dtype, ReduceOp op, const FoldOperands& operands, int64_t count,
             Isa isa = BestIsa());

// values[i] = values[i] / divisor: the mean's one division, after the sum.
void Divide(float* values, float divisor, int64_t count, Isa isa = BestIsa());

// The same for every float type, by a number of contributors: AVG's last step. f16 and bf16 are
// widened to f32, divided, and rounded back.
void Average(Dtype dtype, void* values, int64_t divisor, int64_t count, Isa isa = BestIsa());

}  // namespace lockstep
