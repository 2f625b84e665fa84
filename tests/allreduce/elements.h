// elements.h: integers as elements of any dtype, written bit by bit apart from base/numeric, and
// buffers that notice a byte written beside them. For tests.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/numeric/dtype.h"

namespace lockstep {

inline constexpr std::array<Dtype, 7> kAllDtypes = {
    Dtype::kF32, Dtype::kI64, Dtype::kF64, Dtype::kF16, Dtype::kBf16, Dtype::kI32, Dtype::kU8};
inline constexpr std::array<ReduceOp, 4> kAllOps = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                                                    ReduceOp::kProd};

// The bits of a binary floating-point number. REQUIRES: it needs no rounding and is no subnormal.
inline uint64_t FloatBits(int64_t value, int exponent_bits, int fraction_bits) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(std::llabs(value));
  const int power = static_cast<int>(std::bit_width(magnitude)) - 1;
  const uint64_t fraction = power <= fraction_bits ? magnitude << (fraction_bits - power)
                                                   : magnitude >> (power - fraction_bits);
  CHECK(power <= fraction_bits || std::countr_zero(magnitude) >= power - fraction_bits) << value;
  const uint64_t bias = (uint64_t{1} << (exponent_bits - 1)) - 1;
  const uint64_t exponent = bias + static_cast<uint64_t>(power);
  const uint64_t sign = value < 0 ? uint64_t{1} << (exponent_bits + fraction_bits) : 0;
  return sign | (exponent << fraction_bits) | (fraction & ((uint64_t{1} << fraction_bits) - 1));
}

// Integers wrap as the dtype does.
inline uint64_t ElementBits(Dtype dtype, int64_t value) {
  switch (dtype) {
    case Dtype::kF32:
      return FloatBits(value, 8, 23);
    case Dtype::kF64:
      return FloatBits(value, 11, 52);
    case Dtype::kF16:
      return FloatBits(value, 5, 10);
    case Dtype::kBf16:
      return FloatBits(value, 8, 7);
    case Dtype::kI64:
    case Dtype::kI32:
    case Dtype::kU8:
      return static_cast<uint64_t>(value);
  }
  return 0;
}

inline void PutElement(Dtype dtype, int64_t value, int64_t index, std::byte* elements) {
  const uint64_t bits = ElementBits(dtype, value);  // little-endian: the low bytes come first
  const auto size = static_cast<size_t>(SizeOf(dtype));
  std::memcpy(elements + index * static_cast<int64_t>(size), &bits, size);
}

// `bytes` of poison between two guards, at an odd address.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), memory_(bytes_ + 2 * kGuard, kPoison) {}
  std::byte* data() { return memory_.data() + kGuard; }
  bool Intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (memory_[i] != kPoison || memory_[kGuard + bytes_ + i] != kPoison) return false;
    }
    return true;
  }
  bool Holds(const std::vector<std::byte>& expected) const {
    return expected.size() == bytes_ &&
           (bytes_ == 0 || std::memcmp(memory_.data() + kGuard, expected.data(), bytes_) == 0);
  }

 private:
  static constexpr size_t kGuard = 17;
  static constexpr std::byte kPoison{0xff};  // a NaN, or a number far off
  const size_t bytes_;
  std::vector<std::byte> memory_;
};

}  // namespace lockstep
