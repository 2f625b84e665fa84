// magnitude.h: the largest magnitude in an array of floats, as bits. Without their sign, bits are
// in the order of the values, infinity and then NaNs last, so that one integer maximum finds both
// the largest value and whether all are finite. Internal to base/numeric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/numeric/dispatch.h"
#include "base/numeric/element.h"

namespace lockstep::numeric {

template <typename Element>
struct MaxMagnitudeBody {
  using Bits = typename Element::Bits;
  LOCKSTEP_INLINE static void Run(const std::byte* values, int64_t count, Bits* result) {
    Bits largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto magnitude =
          static_cast<Bits>(Load<Bits>(values, i) & std::numeric_limits<Bits>::max());
      largest = largest < magnitude ? magnitude : largest;
    }
    *result = largest;
  }
};

// 0 for none. Not finite: >= Element::kInfinity.
template <typename Element>
typename Element::Bits MaxMagnitude(const std::byte* values, int64_t count, Isa isa) {
  typename Element::Bits result = 0;
  Dispatch<MaxMagnitudeBody<Element>>(isa, values, count, &result);
  return result;
}

}  // namespace lockstep::numeric
