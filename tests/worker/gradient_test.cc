// Every backward pass against central finite differences in fp64: the code of the layers is the
// same for float, so what holds here holds there up to rounding (training_test.cc compares the
// two).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/numeric/random.h"
#include "tests/support/status_matchers.h"
#include "worker/model/factory.h"
#include "worker/model/layers.h"

namespace lockstep {
namespace {

constexpr double kChange =
    1e-5;  // its square is the method's error, 1e-16 / kChange the rounding's
constexpr double kTolerance = 1e-6;  // of the largest element of a gradient

std::vector<double> Values(int64_t count, uint64_t stream) {
  Random random(17, stream);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(random.Uniform()) - 0.5;
    values.push_back(std::copysign(std::abs(value) + 0.1, value));  // away from ReLU's corner
  }
  return values;
}

// d f / d values, one element at a time.
std::vector<double> Differences(std::span<double> values, const std::function<double()>& f) {
  std::vector<double> result;
  for (double& value : values) {
    const double kept = value;
    value = kept + kChange;
    const double above = f();
    value = kept - kChange;
    const double below = f();
    value = kept;
    result.push_back((above - below) / (2 * kChange));
  }
  return result;
}

void ExpectGradient(std::span<const double> actual, const std::vector<double>& expected,
                    const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  double distance = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    distance = std::max(distance, std::abs(actual[i] - expected[i]));
  }
  EXPECT_GT(largest, 1e-3) << what << ": the case tests nothing";
  EXPECT_LE(distance / largest, kTolerance) << what;
}

// f = sum of c * y for a fixed c, so that dy = c.
void CheckLayer(Layer<double>* layer) {
  const int64_t rows = 4;
  int64_t count = 0;
  for (const LayerTensor& tensor : layer->tensors()) count += tensor.count;
  const auto math = MakeReferenceMath<double>();
  std::vector<double> parameters = Values(count, 1);
  std::vector<double> gradients(parameters.size(), 77.0);  // must be overwritten
  std::vector<double> x = Values(rows * layer->inputs(), 2);
  const std::vector<double> c = Values(rows * layer->outputs(), 3);
  std::vector<double> y(c.size());
  std::vector<double> dx(x.size(), 77.0);
  layer->Bind(parameters.data(), gradients.data());
  const auto f = [&] {
    layer->Forward(math.get(), rows, x.data(), y.data());
    double sum = 0;
    for (size_t i = 0; i < c.size(); ++i) sum += c[i] * y[i];
    return sum;
  };
  f();
  std::vector<int> ready;
  ASSERT_THAT(
      layer->Backward(math.get(),
                      {.rows = rows, .x = x.data(), .y = y.data(), .dy = c.data(), .dx = dx.data()},
                      [&](int tensor) {
                        ready.push_back(tensor);
                        return absl::OkStatus();
                      }),
      IsOk());
  std::vector<int> expected_ready;
  for (size_t i = layer->tensors().size(); i > 0; --i) {
    expected_ready.push_back(static_cast<int>(i - 1));
  }
  EXPECT_EQ(ready, expected_ready);
  ExpectGradient(dx, Differences(x, f), layer->name() + " dx");
  if (count > 0) ExpectGradient(gradients, Differences(parameters, f), layer->name() + " tensors");
}

TEST(GradientTest, Linear) { CheckLayer(MakeLinear<double>("linear", 5, 3).get()); }
TEST(GradientTest, LinearOfOneByOne) { CheckLayer(MakeLinear<double>("linear", 1, 1).get()); }
TEST(GradientTest, Relu) { CheckLayer(MakeRelu<double>("relu", 7).get()); }

TEST(GradientTest, SoftmaxCrossEntropy) {
  const auto math = MakeReferenceMath<double>();
  std::vector<double> logits = Values(20, 4);
  const std::vector<int32_t> labels = {0, 3, 1, 2, 3};
  std::vector<double> gradient(logits.size(), 77.0);
  std::vector<double> losses(5);
  Classification<double> batch = {.rows = 5,
                                  .classes = 4,
                                  .logits = logits.data(),
                                  .labels = labels.data(),
                                  .losses = losses.data()};
  const std::vector<double> expected = Differences(logits, [&] {
    math->SoftmaxCrossEntropy(batch);
    return std::accumulate(losses.begin(), losses.end(), 0.0) / 5;
  });
  batch.gradient = gradient.data();
  math->SoftmaxCrossEntropy(batch);
  ExpectGradient(gradient, expected, "softmax cross-entropy");
}

TEST(GradientTest, WholeMlpTensorByTensor) {
  const auto model = MakeMlp<double>({5, 7, 6, 3}, MakeReferenceMath<double>());
  model->Init(1);
  const std::vector<double> inputs = Values(20, 5);
  const std::vector<int32_t> labels = {0, 2, 1, 2};
  const BasicBatch<double> batch = {.inputs = inputs, .labels = labels};
  const auto loss = [&] { return *model->Loss(batch); };
  const absl::StatusOr<double> backward_loss = model->ForwardBackward(batch, nullptr);
  ASSERT_THAT(backward_loss, IsOk());
  EXPECT_EQ(*backward_loss, loss());
  for (const NamedTensor& tensor : model->tensors()) {
    const auto offset = static_cast<size_t>(tensor.span.offset);
    const auto count = static_cast<size_t>(tensor.span.count);
    ExpectGradient(model->gradients().subspan(offset, count),
                   Differences(model->parameters().subspan(offset, count), loss), tensor.name);
  }
}

}  // namespace
}  // namespace lockstep
