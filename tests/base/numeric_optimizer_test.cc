#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numeric/optimizer.h"
#include "tests/base/numeric_values.h"

namespace lockstep {
namespace {

float Canonical(float value) { return value == value ? value : std::bit_cast<float>(0x7fc00000U); }

// The formulas of optimizer.h with a forced rounding after each operation. `first`, `second`: the
// state.
void ReferenceSgd(const OptimizerOptions& options, float gradient_sum, float* first,
                  float* parameter) {
  volatile float g = gradient_sum / options.divisor;
  volatile float kept = options.momentum * *first;
  volatile float v = options.momentum == 0.0F ? g : kept + g;
  if (options.momentum != 0.0F) *first = Canonical(v);
  volatile float change = options.learning_rate * Canonical(v);
  volatile float w = *parameter - change;
  *parameter = Canonical(w);
}

float OneOverRest(float beta, int64_t step) {
  return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), step)));
}

void ReferenceAdam(const OptimizerOptions& options, int64_t step, float gradient_sum, float* first,
                   float* second, float* parameter) {
  volatile float g = gradient_sum / options.divisor;
  volatile float decay = options.weight_decay * *parameter;
  if (options.kind == OptimizerKind::kAdam) g = g + decay;
  volatile float rest1 = 1.0F - options.beta1;
  volatile float rest2 = 1.0F - options.beta2;
  volatile float kept1 = options.beta1 * *first;
  volatile float added1 = rest1 * g;
  volatile float m = kept1 + added1;
  volatile float kept2 = options.beta2 * *second;
  volatile float part = rest2 * g;
  volatile float added2 = part * g;
  volatile float v = kept2 + added2;
  *first = Canonical(m);
  *second = Canonical(v);
  volatile float square = *second * OneOverRest(options.beta2, step);
  volatile float root = std::sqrt(square);
  volatile float below = root + options.epsilon;
  volatile float above = *first * OneOverRest(options.beta1, step);
  volatile float direction = above / below;
  volatile float change = options.learning_rate * direction;
  volatile float shrink = options.learning_rate * options.weight_decay;
  volatile float lost = shrink * *parameter;
  volatile float from = *parameter;
  if (options.kind == OptimizerKind::kAdamW) from = *parameter - lost;
  volatile float w = from - change;
  *parameter = Canonical(w);
}

// Each variant takes another way: with and without momentum, a divisor that is a power of two and
// one that is not.
OptimizerOptions OptionsOf(OptimizerKind kind, int64_t variant = 0) {
  const bool sgd = kind == OptimizerKind::kSgd;
  constexpr float kDivisors[] = {3.0F, 4.0F, 1.0F, 0x1p-126F, 0x1p127F};
  return {.learning_rate = 0.1F,
          .momentum = sgd && variant % 2 == 0 ? 0.9F : 0.0F,
          .divisor = kDivisors[variant % 5],
          .kind = kind,
          .beta1 = 0.9F,
          .beta2 = 0.999F,
          .epsilon = 1e-8F,
          .weight_decay = sgd ? 0.0F : 0.01F};
}

using Case = std::tuple<Isa, OptimizerKind>;
std::string NameOfCase(const testing::TestParamInfo<Case>& info) {
  constexpr const char* kNames[] = {"sgd", "adam", "adamw"};
  return absl::StrCat(NameOf(std::get<0>(info.param)), "_",
                      kNames[static_cast<size_t>(std::get<1>(info.param))]);
}

class OptimizerTest : public testing::TestWithParam<Case> {
 protected:
  Isa isa() const { return std::get<0>(GetParam()); }
  OptimizerKind kind() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Isas, OptimizerTest,
                         testing::Combine(testing::ValuesIn(SupportedIsas()),
                                          testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam,
                                                          OptimizerKind::kAdamW)),
                         NameOfCase);

float* At(ShiftedArray<float>* array, int64_t index) {
  return reinterpret_cast<float*>(array->data() + 4 * index);
}

// One call for a range, or two, at any address, in place or to another place: the same bits.
TEST_P(OptimizerTest, EveryLengthSplitAndAddressGivesTheReferenceBits) {
  for (int64_t count = 0; count <= 200; ++count) {
    const OptimizerOptions options = OptionsOf(kind(), count);
    const int64_t split = count / 3;
    const int64_t step = 1 + count % 7;
    const auto seed = static_cast<uint64_t>(count);
    const auto gradients = AnyValues<float>(count, seed);
    std::vector<float> state = AnyValues<float>(2 * count, seed + 1000);
    std::vector<float> parameters = AnyValues<float>(count, seed + 2000);
    ShiftedArray<float> from(gradients, count % 8);
    ShiftedArray<float> s(state, count % 5);
    ShiftedArray<float> w(parameters, count % 3);
    ShiftedArray<float> elsewhere(parameters, count % 7);
    ShiftedArray<float>* updated = count % 2 == 0 ? &w : &elsewhere;
    OptimizerStep(options, step, At(&from, 0), At(&s, 0), count, At(&w, 0), At(updated, 0), split,
                  isa());
    OptimizerStep(options, step, At(&from, split), At(&s, split), count, At(&w, split),
                  At(updated, split), count - split, isa());
    const std::vector<float> before = parameters;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (kind() == OptimizerKind::kSgd) {
        ReferenceSgd(options, gradients[i], &state[i], &parameters[i]);
      } else {
        ReferenceAdam(options, step, gradients[i], &state[i], &state[gradients.size() + i],
                      &parameters[i]);
      }
    }
    const std::string where = absl::StrCat(NameOf(isa()), ", count ", count);
    ExpectSameBits(s.Read(), state, where + ", state");
    ExpectSameBits(updated->Read(), parameters, where + ", parameters");
    if (updated != &w) ExpectSameBits(w.Read(), before, where + ", parameters before");
    ExpectSameBits(from.Read(), gradients, where + ", gradients");
  }
}

TEST_P(OptimizerTest, StateSlotsAreAllThatIsTouched) {
  const OptimizerOptions options = OptionsOf(kind());
  const std::vector<float> gradient(4, 1.0F);
  std::vector<float> state(12, 7.0F);
  std::vector<float> parameters(4, 1.0F);
  OptimizerStep(options, 1, gradient.data(), state.data(), 6, parameters.data(), parameters.data(),
                4, isa());
  const int64_t slots = StateSlots(kind());
  for (int64_t i = 0; i < 12; ++i) {
    const bool touched = i % 6 < 4 && i / 6 < slots;
    EXPECT_EQ(state[static_cast<size_t>(i)] != 7.0F, touched) << i;
  }
}

// PyTorch's own algorithms, in double: SGD(momentum), Adam(weight_decay), AdamW, as its
// documentation writes them. 200 steps with gradients that change.
struct Plain {
  double first = 0;
  double second = 0;
  double w = 0;

  void Step(const OptimizerOptions& options, int64_t step, double sum) {
    const double rate = options.learning_rate;
    const double decay = options.weight_decay;
    double g = sum / options.divisor;
    if (options.kind == OptimizerKind::kSgd) {
      first = options.momentum * first + g;
      w -= rate * first;
      return;
    }
    if (options.kind == OptimizerKind::kAdam) g += decay * w;
    if (options.kind == OptimizerKind::kAdamW) w *= 1 - rate * decay;
    first += (1 - options.beta1) * (g - first);
    second = options.beta2 * second + (1 - options.beta2) * g * g;
    const double correction1 = 1 - std::pow(static_cast<double>(options.beta1), step);
    const double correction2 = 1 - std::pow(static_cast<double>(options.beta2), step);
    const double denominator = std::sqrt(second) / std::sqrt(correction2) + options.epsilon;
    w -= rate / correction1 * first / denominator;
  }
};

TEST_P(OptimizerTest, FollowsPyTorchOverManySteps) {
  OptimizerOptions options = OptionsOf(kind());
  options.learning_rate = 0.01F;
  constexpr size_t kCount = 37;
  std::vector<float> parameters = AnyValues<float>(0, 1);
  std::vector<float> state(2 * kCount, 0.0F);
  std::vector<Plain> plain(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    parameters.push_back(std::sin(static_cast<float>(i)));
    plain[i].w = parameters[i];
  }
  for (int64_t step = 1; step <= 200; ++step) {
    std::vector<float> gradients;
    for (size_t i = 0; i < kCount; ++i) {
      gradients.push_back(std::cos(static_cast<float>(step) * 0.3F + static_cast<float>(i)));
      plain[i].Step(options, step, gradients[i]);
    }
    OptimizerStep(options, step, gradients.data(), state.data(), kCount, parameters.data(),
                  parameters.data(), kCount, isa());
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(parameters[i], plain[i].w, 2e-5) << "step " << step << ", element " << i;
    }
  }
}

// Worked by hand: with constant gradients the corrected moments are g and g^2 at every step.
TEST_P(OptimizerTest, FollowsTheFormula) {
  OptimizerOptions options = {
      .learning_rate = 0.5F, .divisor = 4.0F, .kind = kind(), .beta1 = 0.5F, .beta2 = 0.5F};
  options.epsilon = 0.0F;
  const float gradient_sum = 8.0F;  // mean 2
  std::vector<float> state(2, 0.0F);
  float parameter = 1.0F;
  if (kind() == OptimizerKind::kSgd) {
    options.momentum = 0.5F;
    state[0] = 4.0F;
  }
  if (kind() == OptimizerKind::kAdamW) options.weight_decay = 0.5F;
  OptimizerStep(options, 1, &gradient_sum, state.data(), 1, &parameter, &parameter, 1, isa());
  switch (kind()) {
    case OptimizerKind::kSgd:
      EXPECT_EQ(state[0], 4.0F);    // 0.5 * 4 + 2
      EXPECT_EQ(parameter, -1.0F);  // 1 - 0.5 * 4
      break;
    case OptimizerKind::kAdam:
      EXPECT_EQ(state, (std::vector<float>{1.0F, 2.0F}));
      EXPECT_EQ(parameter, 0.5F);  // 1 - 0.5 * 2 / sqrt(4)
      break;
    case OptimizerKind::kAdamW:
      EXPECT_EQ(state, (std::vector<float>{1.0F, 2.0F}));
      EXPECT_EQ(parameter, 0.25F);  // 1 - 0.5 * 0.5 * 1 - 0.5
      break;
  }
}

// (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 loses its last bit when rounded; a fused operation keeps it.
constexpr float kSquared = 1.0F + 0x1p-12F;
constexpr float kRounded = 1.0F + 0x1p-11F;

class RoundingTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Isas, RoundingTest, testing::ValuesIn(SupportedIsas()), PrintIsa());

TEST_P(RoundingTest, VelocityIsRoundedTwice) {
  ASSERT_EQ(std::fma(kSquared, kSquared, -kRounded), 0x1p-24F) << "the case must tell them apart";
  const OptimizerOptions options = {.learning_rate = 0.0F, .momentum = kSquared, .divisor = 1.0F};
  const std::vector<float> gradients(100, -kRounded);
  std::vector<float> velocity(100, kSquared);
  std::vector<float> parameters(100, 0.0F);
  OptimizerStep(options, 1, gradients.data(), velocity.data(), 100, parameters.data(),
                parameters.data(), 100, GetParam());
  EXPECT_EQ(velocity, std::vector<float>(100, 0.0F));
}

TEST_P(RoundingTest, ParameterIsRoundedTwice) {
  const OptimizerOptions options = {.learning_rate = kSquared, .momentum = 0.0F, .divisor = 1.0F};
  const std::vector<float> gradients(100, kSquared);
  std::vector<float> velocity(100, 0.0F);
  std::vector<float> parameters(100, kRounded);
  OptimizerStep(options, 1, gradients.data(), velocity.data(), 100, parameters.data(),
                parameters.data(), 100, GetParam());
  EXPECT_EQ(parameters, std::vector<float>(100, 0.0F));
}

// beta1 m + (1 - beta1) g with beta1 = m: fused, the product would keep its last bit.
TEST_P(RoundingTest, FirstMomentIsRoundedTwice) {
  const OptimizerOptions options = {
      .learning_rate = 0.0F, .kind = OptimizerKind::kAdam, .beta1 = kSquared, .beta2 = 0.5F};
  const float rest = 1.0F - kSquared;
  const std::vector<float> gradients(100, -kRounded / rest);
  ASSERT_EQ(rest * gradients[0], -kRounded);
  std::vector<float> state(200, 0.0F);
  std::fill_n(state.begin(), 100, kSquared);
  std::vector<float> parameters(100, 0.0F);
  OptimizerStep(options, 1, gradients.data(), state.data(), 100, parameters.data(),
                parameters.data(), 100, GetParam());
  EXPECT_EQ(state[0], 0.0F);
  EXPECT_EQ(state[99], 0.0F);
}

}  // namespace
}  // namespace lockstep
