// convert.h: f32 to and from the types it may travel in (wire dtypes). f16, bf16 and f64 widen
// exactly and narrow with one rounding to nearest, ties to even; a NaN becomes the canonical one.
// Same promise on bits as fold.h; dies on other pairs of types. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "base/numeric/dtype.h"
#include "base/numeric/isa.h"

namespace lockstep {

// One of `from` and `to` is f32, the other f16, bf16 or f64. `count` elements, at any address; the
// two must not overlap.
void Convert(Dtype from, const void* source, Dtype to, void* target, int64_t count,
             Isa isa = BestIsa());

}  // namespace lockstep
