// finite.h: finds the value that ruins a training run, at a small part of the cost of reading it
// into a sum. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "base/numeric/isa.h"

namespace lockstep {

// Index of the first infinity or NaN; -1 if there is none.
int64_t FirstNonFinite(const float* values, int64_t count, Isa isa = BestIsa());

}  // namespace lockstep
