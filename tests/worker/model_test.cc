#include "worker/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "worker/bucket/bucket.h"
#include "worker/model/factory.h"
#include "worker/model/layer_stack.h"
#include "worker/model/layers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr DataDims kDigits = {.features = 64, .classes = 10};

ModelSpec MlpSpec(const std::vector<int32_t>& widths) {
  ModelSpec spec;
  spec.mutable_mlp();
  for (const int32_t width : widths) spec.mutable_mlp()->add_layers(width);
  return spec;
}

std::unique_ptr<Model> DigitsModel(const std::vector<int32_t>& widths) {
  absl::StatusOr<std::unique_ptr<Model>> model =
      MakeModel(MlpSpec(widths), kDigits, MakeDnnlMath());
  EXPECT_THAT(model, IsOk());
  return *std::move(model);
}

TEST(ModelTest, DescribesItself) {
  const auto model = DigitsModel({64, 256, 256, 10});
  EXPECT_EQ(model->Describe(), "mlp 64-256-256-10");
  EXPECT_EQ(model->inputs(), 64);
  EXPECT_EQ(model->classes(), 10);
  EXPECT_EQ(model->parameter_count(), 64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);
}

TEST(ModelTest, TensorsTileTheArenasInForwardOrder) {
  const auto model = DigitsModel({64, 33, 10});
  std::vector<std::string> names;
  int64_t end = 0;
  for (const NamedTensor& tensor : model->tensors()) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.span.offset, end) << tensor.name;
    end += tensor.span.count;
  }
  EXPECT_THAT(names,
              ElementsAre("linear0.weight", "linear0.bias", "linear1.weight", "linear1.bias"));
  EXPECT_EQ(end, model->parameter_count());
  EXPECT_EQ(model->gradients().size(), model->parameters().size());
  for (const std::span<float> arena : {model->parameters(), model->gradients()}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 64, 0U);
  }
  EXPECT_EQ(model->spans().size(), 4U);
}

// Fixed for ever: recorded runs are repeated from their seed.
TEST(ModelTest, InitGoldenValues) {
  const auto model = DigitsModel({64, 256, 10});
  model->Init(1);
  EXPECT_EQ(model->parameters()[0], 0x1.de5984p-4F);
  EXPECT_EQ(model->parameters()[1], -0x1.8d3170p-6F);
  EXPECT_EQ(model->parameters()[16384], 0x1.761764p-4F);
}

TEST(ModelTest, InitStaysWithinTheBoundOfItsFanIn) {
  const auto model = DigitsModel({64, 256, 10});
  model->Init(1);
  for (const NamedTensor& tensor : model->tensors()) {
    const float bound = tensor.name.starts_with("linear0") ? 1.0F / 8.0F : 1.0F / 16.0F;
    float largest = 0;
    for (int64_t i = 0; i < tensor.span.count; ++i) {
      const auto at = static_cast<size_t>(tensor.span.offset + i);
      largest = std::max(largest, std::abs(model->parameters()[at]));
    }
    EXPECT_LE(largest, bound) << tensor.name;
    EXPECT_GT(largest, bound / 2) << tensor.name;
  }
}

TEST(ModelTest, HookRunsOnceATensorLastFirst) {
  const auto model = DigitsModel({64, 8, 8, 10});
  model->Init(1);
  const std::vector<float> inputs(64, 0.5F);
  const std::vector<int32_t> labels = {3};
  std::vector<int> ready;
  std::vector<float> at_hook(model->gradients().size());
  const auto loss = model->ForwardBackward({.inputs = inputs, .labels = labels}, [&](int tensor) {
    ready.push_back(tensor);
    const TensorSpan span = model->tensors().at(static_cast<size_t>(tensor)).span;
    for (int64_t i = span.offset; i < span.offset + span.count; ++i) {
      at_hook[static_cast<size_t>(i)] = model->gradients()[static_cast<size_t>(i)];
    }
    return absl::OkStatus();
  });
  ASSERT_THAT(loss, IsOk());
  EXPECT_THAT(ready, ElementsAre(5, 4, 3, 2, 1, 0));
  const std::vector<float> final_values(model->gradients().begin(), model->gradients().end());
  EXPECT_EQ(at_hook, final_values) << "a gradient was announced before it was final";
}

TEST(ModelTest, HooksErrorStopsBackward) {
  const auto model = DigitsModel({64, 8, 10});
  const std::vector<float> inputs(64, 0.5F);
  const std::vector<int32_t> labels = {3};
  int calls = 0;
  const auto loss = model->ForwardBackward({.inputs = inputs, .labels = labels}, [&](int) {
    ++calls;
    return absl::UnavailableError("rank 2 is gone");
  });
  EXPECT_THAT(loss, StatusIs(absl::StatusCode::kUnavailable, "rank 2 is gone"));
  EXPECT_EQ(calls, 1);
}

// A linear layer with a parameter without elements before, between and behind its own.
class LayerWithEmptyTensors final : public Layer<float> {
 public:
  std::string name() const override { return "mixed"; }
  int64_t inputs() const override { return linear_->inputs(); }
  int64_t outputs() const override { return linear_->outputs(); }
  std::vector<LayerTensor> tensors() const override {
    const std::vector<LayerTensor> own = linear_->tensors();
    return {{"none0"}, own[0], {"none1"}, own[1], {"none2"}};
  }
  void Bind(float* parameters, float* gradients) override { linear_->Bind(parameters, gradients); }
  void Forward(Math<float>* math, int64_t rows, const float* x, float* y) override {
    linear_->Forward(math, rows, x, y);
  }
  absl::Status Backward(Math<float>* math, const BackwardPass<float>& pass,
                        const TensorReady& ready) override {
    const auto none = [](int /*tensor*/) { return absl::OkStatus(); };
    absl::Status status = linear_->Backward(math, pass, none);
    for (int tensor = 4; tensor >= 0; --tensor) status.Update(ready(tensor));
    return status;
  }

 private:
  const std::unique_ptr<Layer<float>> linear_ = MakeLinear<float>("linear", 4, 3);
};

// CASES R20: through model and buckets, and the neighbours are what they are without it.
TEST(ModelTest, EmptyParametersChangeNothing) {
  const auto with = [](std::unique_ptr<Layer<float>> layer) {
    std::vector<std::unique_ptr<Layer<float>>> layers;
    layers.push_back(std::move(layer));
    return std::make_unique<LayerStack<float>>("test", std::move(layers), MakeDnnlMath());
  };
  const auto mixed = with(std::make_unique<LayerWithEmptyTensors>());
  const auto plain = with(MakeLinear<float>("linear", 4, 3));
  mixed->Init(1);
  for (const float value : mixed->parameters()) EXPECT_TRUE(std::isfinite(value));
  std::copy_n(mixed->parameters().begin(), 15, plain->parameters().begin());
  const std::vector<float> inputs = {1, 2, 3, 4};
  const std::vector<int32_t> labels = {2};
  const Batch batch = {.inputs = inputs, .labels = labels};
  const std::vector<Bucket> buckets = MakeBuckets(mixed->spans(), 16);
  size_t next = 0;
  const auto loss = mixed->ForwardBackward(batch, [&](int tensor) {
    if (next < buckets.size() && buckets[next].first_tensor == tensor) ++next;
    return absl::OkStatus();
  });
  ASSERT_THAT(loss, IsOk());
  EXPECT_EQ(next, buckets.size()) << "every bucket was ready, the empty ones too";
  EXPECT_THAT(plain->ForwardBackward(batch, nullptr), IsOk());
  EXPECT_TRUE(std::equal(mixed->gradients().begin(), mixed->gradients().end(),
                         plain->gradients().begin(), plain->gradients().end()));
}

TEST(ModelTest, ASmallerBatchAfterALargerOneIsRight) {
  const auto model = DigitsModel({64, 8, 10});
  model->Init(1);
  const std::vector<float> inputs(320, 0.25F);
  const std::vector<int32_t> labels(5, 3);
  const std::span<const float> all(inputs);
  const std::span<const int32_t> all_labels(labels);
  const double one = *model->Loss({.inputs = all.first(64), .labels = all_labels.first(1)});
  EXPECT_NEAR(*model->Loss({.inputs = all, .labels = all_labels}), one, 1e-6);
  EXPECT_EQ(*model->Loss({.inputs = all.first(64), .labels = all_labels.first(1)}), one);
}

TEST(ModelTest, BatchesThatDoNotFitAreRefused) {
  const auto model = DigitsModel({64, 8, 10});
  const std::vector<float> inputs(128, 0.5F);
  const auto loss = [&](const std::vector<int32_t>& labels) {
    return model->ForwardBackward({.inputs = inputs, .labels = labels}, nullptr);
  };
  EXPECT_THAT(loss({}), StatusIs(kInvalid, "empty batch"));
  EXPECT_THAT(loss({1}),
              StatusIs(kInvalid, "1 rows of 64 features are 64 values, the batch has 128"));
  EXPECT_THAT(loss({1, 10}), StatusIs(kInvalid, "label 10 in row 1, but there are 10 classes"));
  EXPECT_THAT(loss({-1, 1}), StatusIs(kInvalid, "label -1 in row 0"));
  EXPECT_THAT(loss({1, 9}), IsOk());
}

struct BadSpec {
  std::string name;
  std::vector<int32_t> widths;
  std::string message;
};
class FactoryErrorTest : public testing::TestWithParam<BadSpec> {};
INSTANTIATE_TEST_SUITE_P(
    Cases, FactoryErrorTest,
    testing::Values(
        BadSpec{
            "WrongFeatures", {63, 10}, "starts with 63, but a sample of the data has 64 features"},
        BadSpec{"WrongClasses", {64, 9}, "ends with 9, but the data has 10 classes"},
        BadSpec{"OneWidth", {64}, "has 1 widths, expected at least 2"},
        BadSpec{"NoWidths", {}, "has 0 widths"},
        BadSpec{"ZeroWidth", {64, 0, 10}, "layers[1] is 0"},
        BadSpec{"Huge", {64, 2147483647, 2147483647, 10}, "at most 268435456 are allowed"}),
    [](const auto& test) { return test.param.name; });

TEST_P(FactoryErrorTest, NamesBothNumbers) {
  EXPECT_THAT(MakeModel(MlpSpec(GetParam().widths), kDigits, MakeDnnlMath()),
              StatusIs(kInvalid, GetParam().message));
}

TEST(FactoryTest, OtherKindsAreRefused) {
  ModelSpec spec;
  EXPECT_THAT(MakeModel(spec, kDigits, MakeDnnlMath()), StatusIs(kInvalid, "no kind"));
  const auto refused = [&] { return MakeModel(spec, kDigits, MakeDnnlMath()); };
  const auto code = absl::StatusCode::kUnimplemented;
  spec.mutable_cnn();
  EXPECT_THAT(refused(), StatusIs(code, "model.cnn: not built yet"));
  spec.mutable_transformer();
  EXPECT_THAT(refused(), StatusIs(code, "model.transformer: not built yet"));
  spec.mutable_linear();
  EXPECT_THAT(refused(), StatusIs(code, "model.linear: not built yet"));
  spec.mutable_replay();
  EXPECT_THAT(refused(), StatusIs(code, "model.replay: not built yet"));
  spec.set_torchscript("model.pt");
  EXPECT_THAT(refused(), StatusIs(code, "model.torchscript: not built yet"));
}

}  // namespace
}  // namespace lockstep
