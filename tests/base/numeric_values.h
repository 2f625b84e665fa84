// numeric_values.h: types, inputs and comparisons of the tests of base/numeric. Every comparison is
// of bits.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numeric/dtype.h"
#include "base/numeric/isa.h"
#include "base/numeric/random.h"

namespace lockstep {

inline std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (Supported(isa)) isas.push_back(isa);
  }
  return isas;
}

inline void PrintTo(Isa isa, std::ostream* out) { *out << NameOf(isa); }

struct PrintIsa {
  std::string operator()(const testing::TestParamInfo<Isa>& info) const {
    return NameOf(info.param);
  }
};

// Types of their own for the two that C++20 lacks, so that overloads tell them from integers.
struct F16 {
  uint16_t bits = 0;
};
struct Bf16 {
  uint16_t bits = 0;
};

constexpr Dtype DtypeOf(float) { return Dtype::kF32; }
constexpr Dtype DtypeOf(double) { return Dtype::kF64; }
constexpr Dtype DtypeOf(F16) { return Dtype::kF16; }
constexpr Dtype DtypeOf(Bf16) { return Dtype::kBf16; }
constexpr Dtype DtypeOf(int32_t) { return Dtype::kI32; }
constexpr Dtype DtypeOf(int64_t) { return Dtype::kI64; }
constexpr Dtype DtypeOf(uint8_t) { return Dtype::kU8; }

template <typename T>
auto Bits(T value) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<uint16_t>(value);
  } else {
    return std::bit_cast<uint8_t>(value);
  }
}

// A float type's special patterns, which with their neighbours of the random kind meet every case.
template <typename T>
struct SpecialBits;
template <>
struct SpecialBits<float> {
  static constexpr uint32_t kSign = 0x80000000, kOne = 0x3f800000, kInfinity = 0x7f800000;
};
template <>
struct SpecialBits<double> {
  static constexpr uint64_t kSign = uint64_t{1} << 63, kOne = 0x3ff0000000000000,
                            kInfinity = 0x7ff0000000000000;
};
template <>
struct SpecialBits<F16> {
  static constexpr uint16_t kSign = 0x8000, kOne = 0x3c00, kInfinity = 0x7c00;
};
template <>
struct SpecialBits<Bf16> {
  static constexpr uint16_t kSign = 0x8000, kOne = 0x3f80, kInfinity = 0x7f80;
};

template <typename T>
T CanonicalNan() {
  using Special = SpecialBits<T>;
  // The first bit below the exponent: half of the exponent's last place.
  const auto exponent_bit = Special::kInfinity & (0U - Special::kInfinity);
  return std::bit_cast<T>(
      static_cast<decltype(Bits(T{}))>(Special::kInfinity | (exponent_bit >> 1)));
}

// Any bit pattern: zeros, subnormals, infinities and NaNs with payloads among them, and values near
// each other, whose sums and products round.
template <typename T>
void SetAnyValue(Random* random, T* value) {
  using Pattern = decltype(Bits(T{}));
  auto bits = static_cast<Pattern>(random->Next());
  if constexpr (!std::is_integral_v<T>) {
    using Special = SpecialBits<T>;
    const Pattern sign = bits & Special::kSign;
    const Pattern specials[] = {0,
                                1,
                                Special::kInfinity - 1,
                                Special::kOne,
                                Special::kInfinity,
                                static_cast<Pattern>(Special::kInfinity + 1 + bits % 3)};
    const uint32_t kind = random->Below(16);
    if (kind < std::size(specials)) {
      bits = static_cast<Pattern>(specials[kind] | sign);
    } else if (kind < 10) {  // within a few powers of two of 1
      bits = static_cast<Pattern>((Special::kOne + bits % (Special::kOne / 16)) | sign);
    }
  }
  *value = std::bit_cast<T>(bits);
}

template <typename T>
std::vector<T> AnyValues(int64_t count, uint64_t seed) {
  Random random(seed, 0);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) SetAnyValue(&random, &value);
  return values;
}

// An array at an address that is `shift` bytes off any alignment, with guard bytes on both sides.
template <typename T>
class ShiftedArray {
 public:
  ShiftedArray(const std::vector<T>& values, int64_t shift)
      : begin_(kGuard + shift),
        count_(values.size()),
        bytes_(values.size() * sizeof(T) + 2 * kRoom) {
    std::memset(bytes_.data(), kFill, bytes_.size());
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }

  std::byte* data() { return bytes_.data() + begin_; }

  // The values now; fails the test if a byte beside them changed.
  std::vector<T> Read() {
    std::vector<T> values(count_);
    if (count_ > 0) std::memcpy(values.data(), data(), count_ * sizeof(T));
    const auto end = static_cast<size_t>(begin_) + count_ * sizeof(T);
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (i >= static_cast<size_t>(begin_) && i < end) continue;
      EXPECT_EQ(static_cast<int>(bytes_[i]), kFill) << "byte " << i << " beside the array changed";
    }
    return values;
  }

 private:
  static constexpr int kFill = 0x5a;
  static constexpr int64_t kGuard = 64;
  static constexpr int64_t kRoom = 2 * kGuard;

  int64_t begin_;
  size_t count_;
  std::vector<std::byte> bytes_;
};

template <typename T>
void ExpectSameBits(const std::vector<T>& actual, const std::vector<T>& expected,
                    const std::string& where) {
  ASSERT_EQ(actual.size(), expected.size()) << where;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (Bits(actual[i]) == Bits(expected[i])) continue;
    FAIL() << where << ", element " << i << ": 0x" << absl::StrCat(absl::Hex(Bits(actual[i])))
           << ", expected 0x" << absl::StrCat(absl::Hex(Bits(expected[i])));
  }
}

}  // namespace lockstep
