// element.h: how an element type is stored and in which type its arithmetic runs. `Widen` is exact;
// `Narrow` rounds once, if at all, and makes every NaN the canonical one. Internal to base/numeric.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/numeric/dispatch.h"
#include "base/numeric/half.h"

namespace lockstep::numeric {

// Floats have `Bits`, the signed integer of their size, and infinity's and the canonical NaN's.
template <typename T>
struct Native {
  using Stored = T;
  using Value = T;
  LOCKSTEP_INLINE static T Widen(T stored) { return stored; }
  LOCKSTEP_INLINE static T Narrow(T value) { return value; }
};

template <std::floating_point T>
struct Native<T> {
  using Stored = T;
  using Value = T;
  using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  static constexpr auto kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  static constexpr auto kNan = std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN());
  LOCKSTEP_INLINE static T Widen(T stored) { return stored; }
  LOCKSTEP_INLINE static T Narrow(T value) { return CanonicalNan(value); }
};

struct F16 {
  using Stored = uint16_t;
  using Value = float;
  using Bits = int16_t;
  static constexpr Bits kInfinity = 0x7c00;
  static constexpr Bits kNan = 0x7e00;
  LOCKSTEP_INLINE static float Widen(uint16_t stored) { return F16ToF32(stored); }
  LOCKSTEP_INLINE static uint16_t Narrow(float value) { return F32ToF16(value); }
};

struct Bf16 {
  using Stored = uint16_t;
  using Value = float;
  using Bits = int16_t;
  static constexpr Bits kInfinity = 0x7f80;
  static constexpr Bits kNan = 0x7fc0;
  LOCKSTEP_INLINE static float Widen(uint16_t stored) { return Bf16ToF32(stored); }
  LOCKSTEP_INLINE static uint16_t Narrow(float value) { return F32ToBf16(value); }
};

// Element `index` of an array that may start at any address.
template <typename Element>
LOCKSTEP_INLINE typename Element::Value Read(const std::byte* array, int64_t index) {
  return Element::Widen(Load<typename Element::Stored>(array, index));
}

template <typename Element>
LOCKSTEP_INLINE void Write(std::byte* array, int64_t index, typename Element::Value value) {
  Store(array, index, Element::Narrow(value));
}

}  // namespace lockstep::numeric
