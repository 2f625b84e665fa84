#include "base/numeric/finite.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"
#include "base/numeric/element.h"
#include "base/numeric/magnitude.h"

namespace lockstep {

int64_t FirstNonFinite(const float* values, int64_t count, Isa isa) {
  using F32 = numeric::Native<float>;
  constexpr int64_t kBlock = 4096;  // so few are read twice, and so few too much
  CHECK_GE(count, 0);
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t length = std::min(kBlock, count - first);
    const auto* block = reinterpret_cast<const std::byte*>(values + first);
    if (numeric::MaxMagnitude<F32>(block, length, isa) < F32::kInfinity) continue;
    for (int64_t i = first; i < count; ++i) {
      if (!std::isfinite(values[i])) return i;
    }
  }
  return -1;
}

}  // namespace lockstep
