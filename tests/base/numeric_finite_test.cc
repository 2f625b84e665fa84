#include <gtest/gtest.h>

#include <limits>

#include "base/numeric/finite.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

class FiniteTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, FiniteTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(FiniteTest, FiniteValuesHaveNone) {
  for (const float value : {0.0F, -0.0F, 0x1p-149F, -0x1p-126F, kLargest, -kLargest}) {
    for (const int64_t count : {0, 1, 15, 64, 67, 4096, 9000}) {
      const std::vector<float> values(static_cast<size_t>(count), value);
      EXPECT_EQ(FirstNonFinite(values.data(), count, GetParam()), -1) << value << " x " << count;
    }
  }
}

TEST_P(FiniteTest, FindsEveryKindAtEveryPlace) {
  for (const uint32_t bits : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xffc00000U, 0x7f800001U}) {
    std::vector<float> values(9000, kLargest);
    for (const int64_t at : {0, 1, 7, 8, 63, 64, 4095, 4096, 4097, 8191, 8192, 8999}) {
      values[static_cast<size_t>(at)] = std::bit_cast<float>(bits);
      EXPECT_EQ(FirstNonFinite(values.data(), 9000, GetParam()), at) << bits;
      EXPECT_EQ(FirstNonFinite(values.data(), at, GetParam()), -1) << bits;
      values[static_cast<size_t>(at)] = kLargest;
    }
  }
}

TEST_P(FiniteTest, FindsTheFirstOfSeveral) {
  std::vector<float> values(9000, 1.0F);
  values[8999] = values[5001] = values[5000] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FirstNonFinite(values.data(), 9000, GetParam()), 5000);
}

}  // namespace
}  // namespace lockstep
