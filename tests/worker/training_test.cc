// The single-process reference: model, data and order together, on the real digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/fingerprint.h"
#include "base/numeric/optimizer.h"
#include "tests/support/status_matchers.h"
#include "worker/data/digits.h"
#include "worker/data/sampler.h"
#include "worker/model/factory.h"

namespace lockstep {
namespace {

const std::vector<int64_t> kWidths = {64, 256, 10};
constexpr int64_t kGlobalBatch = 128;

class TrainingTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<Dataset> digits = LoadDigits();
    ASSERT_THAT(digits, IsOk());
    digits_ = *std::move(digits);
  }

  Samples Read(int64_t step, int32_t rank, int32_t world_size) const {
    absl::StatusOr<Sampler> sampler = Sampler::Make({.seed = 1,
                                                     .samples = digits_.samples,
                                                     .global_batch = kGlobalBatch,
                                                     .rank = rank,
                                                     .world_size = world_size});
    EXPECT_THAT(sampler, IsOk());
    Samples samples;
    Gather(digits_, sampler->Batch(step), &samples);
    return samples;
  }

  Dataset digits_;
};

struct Trained {
  std::vector<double> losses;
  std::string hash;
};

TEST_F(TrainingTest, SixtyStepsLearnTheDigitsAndRepeatToTheBit) {
  const auto train = [&] {
    const auto model = MakeMlp<float>(kWidths, MakeDnnlMath());
    model->Init(1);
    std::vector<float> velocity(model->parameters().size(), 0.0F);
    Trained result;
    for (int64_t step = 1; step <= 60; ++step) {
      const Samples samples = Read(step, 0, 1);
      const auto loss =
          model->ForwardBackward({.inputs = samples.inputs, .labels = samples.labels}, nullptr);
      EXPECT_THAT(loss, IsOk());
      result.losses.push_back(*loss);
      OptimizerStep({.learning_rate = 0.1F, .momentum = 0.9F}, step, model->gradients().data(),
                    velocity.data(), model->parameter_count(), model->parameters().data(),
                    model->parameters().data(), model->parameter_count());
    }
    result.hash = Fingerprint(std::as_bytes(model->parameters()));
    return result;
  };
  const Trained first = train();
  EXPECT_NEAR(first.losses.front(), std::log(10.0), 0.1);  // of a model that knows nothing
  EXPECT_LT(first.losses.back(), 0.5);
  const Trained second = train();
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.hash, second.hash);
}

template <typename T, typename U>
double RelativeDistance(std::span<T> actual, std::span<U> expected) {
  double largest = 0;
  double distance = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto value = static_cast<double>(expected[i]);
    largest = std::max(largest, std::abs(value));
    distance = std::max(distance, std::abs(static_cast<double>(actual[i]) - value));
  }
  return distance / largest;
}

TEST_F(TrainingTest, FloatOnOneDnnFollowsPlainFp64) {
  const auto fast = MakeMlp<float>(kWidths, MakeDnnlMath());
  const auto exact = MakeMlp<double>(kWidths, MakeReferenceMath<double>());
  fast->Init(1);
  exact->Init(1);
  EXPECT_EQ(RelativeDistance(fast->parameters(), exact->parameters()), 0.0);
  const Samples samples = Read(1, 0, 4);
  const std::vector<double> inputs(samples.inputs.begin(), samples.inputs.end());
  const auto loss =
      fast->ForwardBackward({.inputs = samples.inputs, .labels = samples.labels}, nullptr);
  const auto expected =
      exact->ForwardBackward({.inputs = inputs, .labels = samples.labels}, nullptr);
  ASSERT_THAT(loss, IsOk());
  ASSERT_THAT(expected, IsOk());
  EXPECT_NEAR(*loss, *expected, 1e-6 * *expected);
  EXPECT_LE(RelativeDistance(fast->gradients(), exact->gradients()), 1e-5);
}

// What makes a mean over workers the gradient of the global batch.
TEST_F(TrainingTest, MeanOfFourShardsIsTheGradientOfTheWholeBatch) {
  const auto model = MakeMlp<float>(kWidths, MakeDnnlMath());
  model->Init(1);
  const auto gradient = [&](int32_t rank, int32_t world_size) {
    const Samples samples = Read(1, rank, world_size);
    EXPECT_THAT(
        model->ForwardBackward({.inputs = samples.inputs, .labels = samples.labels}, nullptr),
        IsOk());
    return std::vector<float>(model->gradients().begin(), model->gradients().end());
  };
  std::vector<float> mean(model->gradients().size(), 0.0F);
  for (int32_t rank = 0; rank < 4; ++rank) {
    const std::vector<float> shard = gradient(rank, 4);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += shard[i] / 4.0F;
  }
  const std::vector<float> whole = gradient(0, 1);
  EXPECT_LE(RelativeDistance(std::span(mean), std::span(whole)), 1e-6);
}

}  // namespace
}  // namespace lockstep
