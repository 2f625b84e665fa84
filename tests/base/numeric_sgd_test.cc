#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/numeric/sgd.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

float Canonical(float value) { return value == value ? value : std::bit_cast<float>(0x7fc00000U); }

// The three lines of sgd.h with a forced rounding after each operation.
void ReferenceStep(const SgdOptions& options, float gradient_sum, float* velocity,
                   float* parameter) {
  volatile float g = gradient_sum / options.divisor;
  volatile float kept = options.momentum * *velocity;
  volatile float v = kept + g;
  volatile float change = options.learning_rate * v;
  volatile float w = *parameter - change;
  *velocity = Canonical(v);
  *parameter = Canonical(w);
}

class SgdTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, SgdTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(SgdTest, FollowsTheFormula) {
  const SgdOptions options = {.learning_rate = 0.5F, .momentum = 0.5F, .divisor = 4.0F};
  const float gradient_sum = 8.0F;  // mean 2
  float velocity = 4.0F;
  float parameter = 1.0F;
  SgdStep(options, &gradient_sum, &velocity, &parameter, 1, GetParam());
  EXPECT_EQ(velocity, 4.0F);    // 0.5 * 4 + 2
  EXPECT_EQ(parameter, -1.0F);  // 1 - 0.5 * 4
}

TEST_P(SgdTest, EveryLengthSplitAndAddressGivesTheReferenceBits) {
  const SgdOptions options = {.learning_rate = 0.1F, .momentum = 0.9F, .divisor = 3.0F};
  for (int64_t count = 0; count <= 200; ++count) {
    const int64_t split = count / 3;
    const auto seed = static_cast<uint64_t>(count);
    const auto gradients = AnyValues<float>(count, seed);
    std::vector<float> velocity = AnyValues<float>(count, seed + 1000);
    std::vector<float> parameters = AnyValues<float>(count, seed + 2000);
    ShiftedArray<float> from(gradients, count % 8);
    ShiftedArray<float> v(velocity, count % 5);
    ShiftedArray<float> w(parameters, count % 3);
    auto at = [](ShiftedArray<float>* array, int64_t index) {
      return reinterpret_cast<float*>(array->data() + 4 * index);
    };
    SgdStep(options, at(&from, 0), at(&v, 0), at(&w, 0), split, GetParam());
    SgdStep(options, at(&from, split), at(&v, split), at(&w, split), count - split, GetParam());
    for (size_t i = 0; i < gradients.size(); ++i) {
      ReferenceStep(options, gradients[i], &velocity[i], &parameters[i]);
    }
    const std::string where = absl::StrCat(NameOf(GetParam()), ", count ", count);
    ExpectSameBits(v.Read(), velocity, where + ", velocity");
    ExpectSameBits(w.Read(), parameters, where + ", parameters");
    ExpectSameBits(from.Read(), gradients, where + ", gradients");
  }
}

// (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 loses its last bit when rounded; a fused operation keeps it.
constexpr float kSquared = 1.0F + 0x1p-12F;
constexpr float kRounded = 1.0F + 0x1p-11F;

TEST_P(SgdTest, VelocityIsRoundedTwice) {
  ASSERT_EQ(std::fma(kSquared, kSquared, -kRounded), 0x1p-24F) << "the case must tell them apart";
  const SgdOptions options = {.learning_rate = 0.0F, .momentum = kSquared, .divisor = 1.0F};
  const std::vector<float> gradients(100, -kRounded);
  std::vector<float> velocity(100, kSquared);
  std::vector<float> parameters(100, 0.0F);
  SgdStep(options, gradients.data(), velocity.data(), parameters.data(), 100, GetParam());
  EXPECT_EQ(velocity, std::vector<float>(100, 0.0F));
}

TEST_P(SgdTest, ParameterIsRoundedTwice) {
  const SgdOptions options = {.learning_rate = kSquared, .momentum = 0.0F, .divisor = 1.0F};
  const std::vector<float> gradients(100, kSquared);
  std::vector<float> velocity(100, 0.0F);
  std::vector<float> parameters(100, kRounded);
  SgdStep(options, gradients.data(), velocity.data(), parameters.data(), 100, GetParam());
  EXPECT_EQ(parameters, std::vector<float>(100, 0.0F));
}

}  // namespace
}  // namespace lockstep
