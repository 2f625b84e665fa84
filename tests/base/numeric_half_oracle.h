// numeric_half_oracle.h: f16 and bf16 straight from their definition: a table of all values, and
// rounding by searching the two neighbours. Slow, and shares nothing with base/numeric/half.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/base/numeric_values.h"

namespace lockstep {

class HalfFormat {
 public:
  HalfFormat(int exponent_bits, int mantissa_bits)
      : infinity_(((1 << exponent_bits) - 1) << mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int hidden = 1 << mantissa_bits;
    // One value more than there are: what infinity stands for when the largest value rounds up.
    for (int bits = 0; bits <= infinity_; ++bits) {
      const int exponent = bits / hidden;
      const int mantissa = exponent == 0 ? bits : bits % hidden + hidden;
      magnitudes_.push_back(std::ldexp(mantissa, std::max(exponent, 1) - bias - mantissa_bits));
    }
  }

  int infinity() const { return infinity_; }
  // Of a finite pattern without sign, and of infinity as above.
  double Magnitude(int bits) const { return magnitudes_[static_cast<size_t>(bits)]; }

  float Decode(uint16_t half) const {
    const int bits = half & 0x7fff;
    if (bits > infinity_) return std::numeric_limits<float>::quiet_NaN();
    const double magnitude =
        bits == infinity_ ? std::numeric_limits<double>::infinity() : Magnitude(bits);
    return static_cast<float>((half & 0x8000) != 0 ? -magnitude : magnitude);
  }

  uint16_t Encode(double value, uint16_t nan) const {
    if (std::isnan(value)) return nan;
    const double magnitude = std::fabs(value);
    const auto above = std::lower_bound(magnitudes_.begin(), magnitudes_.end(), magnitude);
    auto bits = static_cast<int>(above - magnitudes_.begin());
    if (above == magnitudes_.end()) {
      bits = infinity_;
    } else if (*above != magnitude) {
      const double up = *above - magnitude;
      const double down = magnitude - Magnitude(bits - 1);
      if (down < up || (down == up && bits % 2 != 0)) --bits;
    }
    return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
  }

 private:
  int infinity_;
  std::vector<double> magnitudes_;  // by pattern, ascending
};

inline const HalfFormat& FormatOf(F16) {
  static const HalfFormat format(5, 10);
  return format;
}
inline const HalfFormat& FormatOf(Bf16) {
  static const HalfFormat format(8, 7);
  return format;
}

template <typename Half>
Half EncodeHalf(double value) {
  return {FormatOf(Half{}).Encode(value, CanonicalNan<Half>().bits)};
}
template <typename Half>
float DecodeHalf(Half half) {
  return FormatOf(half).Decode(half.bits);
}

}  // namespace lockstep
