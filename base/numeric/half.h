// half.h: f16 (IEEE binary16) and bf16 as bit patterns, converted to and from f32 without hardware
// support, so that every processor gives the same bits. Widening is exact; narrowing rounds to
// nearest, ties to even, from subnormals to infinity. Every NaN becomes the canonical one of the
// target. No branches: loops over these vectorise. A GPU converts by its own instructions, which
// round in the same way; only their NaN differs and is replaced. Pure.
#pragma once

#include <bit>
#include <cstdint>

#include "base/numeric/anywhere.h"

namespace lockstep {

inline constexpr int32_t kF32Nan = 0x7fc00000;
inline constexpr uint16_t kF16Nan = 0x7e00;
inline constexpr uint16_t kBf16Nan = 0x7fc0;

namespace numeric {

// Masks instead of conditions: the compiler would draw float operations into a branch, and then not
// vectorise.
LOCKSTEP_INLINE int32_t IfNegative(int32_t x, int32_t value) { return value & (x >> 31); }
LOCKSTEP_INLINE int32_t Positive(int32_t x) { return x & ~(x >> 31); }  // max(x, 0)
LOCKSTEP_INLINE int32_t NanIfNegative(int32_t x, int32_t bits) {
  return (bits & ~(x >> 31)) | IfNegative(x, kF32Nan);
}

}  // namespace numeric

// Both ways count in units of the half's last place. With its exponent field e (a subnormal's
// counts as 1) that is 2^(e-25), also the last place of the floats from 2^(e-2) on. The bits of
// such a float are those of 2^(e-2) plus the number of units: adding 2^(e-2) rounds, subtracting it
// gives the value.
LOCKSTEP_INLINE float F16ToF32(uint16_t half) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value != value ? std::bit_cast<float>(kF32Nan) : value;
#else
  const int32_t magnitude = half & 0x7fff;
  const int32_t exponent = 1 + numeric::Positive((magnitude >> 10) - 1);
  const int32_t power = (exponent - 2 + 127) << 23;
  const int32_t units = magnitude - ((exponent - 1) << 10);
  const float finite = std::bit_cast<float>(power + units) - std::bit_cast<float>(power);
  const int32_t not_finite = numeric::IfNegative(0x7bff - magnitude, 0x7f800000);
  const int32_t sign = static_cast<int16_t>(half & 0x8000) << 16;
  const int32_t bits = std::bit_cast<int32_t>(finite) | not_finite | sign;
  return std::bit_cast<float>(numeric::NanIfNegative(0x7c00 - magnitude, bits));
#endif
}

LOCKSTEP_INLINE uint16_t F32ToF16(float value) {
#if defined(__CUDA_ARCH__)
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return value != value ? kF16Nan : half;
#else
  constexpr int32_t kInfinite = 0x47800000;        // 2^16: f16 would give it infinity's exponent
  constexpr int32_t kSmallestNormal = 0x38800000;  // 2^-14, exponent field 1
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto magnitude = static_cast<int32_t>(bits & 0x7fffffffU);
  const int32_t limited = kInfinite - numeric::Positive(kInfinite - magnitude);  // NaN too
  const int32_t normal = kSmallestNormal + numeric::Positive(limited - kSmallestNormal);
  const int32_t power = (normal & 0x7f800000) + (13 << 23);
  const float sum = std::bit_cast<float>(limited) + std::bit_cast<float>(power);
  const int32_t units = std::bit_cast<int32_t>(sum) - power;
  const int32_t half = units + (((normal - kSmallestNormal) >> 23) << 10);
  const uint32_t quiet_or_sign = magnitude > 0x7f800000 ? 0x0200U : (bits >> 16) & 0x8000U;
  return static_cast<uint16_t>(static_cast<uint32_t>(half) | quiet_or_sign);
#endif
}

LOCKSTEP_INLINE float Bf16ToF32(uint16_t half) {
  const int32_t bits = static_cast<int16_t>(half) << 16;
  return std::bit_cast<float>(numeric::NanIfNegative(0x7f80 - (half & 0x7fff), bits));
}

LOCKSTEP_INLINE uint16_t F32ToBf16(float value) {
#if defined(__CUDA_ARCH__)
  uint16_t half;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return value != value ? kBf16Nan : half;
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? kBf16Nan : rounded);
#endif
}

}  // namespace lockstep
