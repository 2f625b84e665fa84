// numeric_values.h: inputs and comparisons of the tests of base/numeric. Every comparison is of
// bits.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

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

// Any bit pattern: subnormals, infinities and NaNs with payloads among them.
inline void SetAnyValue(Random* random, int64_t* value) {
  *value = static_cast<int64_t>(random->Next());
}

inline void SetAnyValue(Random* random, float* value) {
  constexpr float kRare[] = {0.0F, -0.0F, 0x1p-149F, 0x1.fffffep127F, -0x1.fffffep127F, 1.0F};
  const uint32_t kind = random->Below(16);
  if (kind < std::size(kRare)) {
    *value = kRare[kind];
  } else if (kind < 8) {  // infinities and NaNs
    *value = std::bit_cast<float>(0x7f800000U | random->Below(4) | (random->Below(2) << 31));
  } else if (kind < 12) {  // near each other: sums round
    *value = random->Uniform() - 0.5F;
  } else {
    *value = std::bit_cast<float>(static_cast<uint32_t>(random->Next()));
  }
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
auto Bits(T value) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return std::bit_cast<uint32_t>(value);
  }
}

template <typename T>
void ExpectSameBits(const std::vector<T>& actual, const std::vector<T>& expected,
                    const std::string& where) {
  ASSERT_EQ(actual.size(), expected.size()) << where;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (Bits(actual[i]) == Bits(expected[i])) continue;
    FAIL() << where << ", element " << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

}  // namespace lockstep
