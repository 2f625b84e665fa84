// fold.h: the reductions that decide bits. target[i] = target[i] op source[i], one rounding each.
// Promise: an element's result depends on its two operands alone, never on its position, the
// length, the alignment, the thread count or the instruction set (no contraction, no
// reassociation). Integers wrap modulo 2^bits. f16 and bf16 are widened to f32, folded, and rounded
// back to nearest, ties to even. A NaN result is always the type's canonical one: f32 0x7fc00000,
// f64 0x7ff8000000000000, f16 0x7e00, bf16 0x7fc0. MIN and MAX are NaN if an operand is, and hold
// -0 < +0. Dies on an `isa` that this processor lacks (isa.h, Supported). Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/numeric/dtype.h"
#include "base/numeric/isa.h"

namespace lockstep {

// `source` and `target` hold `count` elements, may be unaligned, must not overlap in part.
void Fold(Dtype dtype, ReduceOp op, const void* source, void* target, int64_t count,
          Isa isa = BestIsa());

// values[i] = values[i] / divisor: the mean's one division, after the sum.
void Divide(float* values, float divisor, int64_t count, Isa isa = BestIsa());

}  // namespace lockstep
