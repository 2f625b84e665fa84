#include "worker/model/layers.h"

#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr int kWeight = 0;
constexpr int kBias = 1;

template <typename T>
class LinearLayer final : public Layer<T> {
 public:
  LinearLayer(std::string name, int64_t inputs, int64_t outputs)
      : name_(std::move(name)), inputs_(inputs), outputs_(outputs) {}

  std::string name() const override { return name_; }
  int64_t inputs() const override { return inputs_; }
  int64_t outputs() const override { return outputs_; }
  std::vector<LayerTensor> tensors() const override {
    return {{.name = "weight", .count = outputs_ * inputs_, .fan_in = inputs_},
            {.name = "bias", .count = outputs_, .fan_in = inputs_}};
  }
  void Bind(T* parameters, T* gradients) override {
    weight_ = parameters;
    bias_ = parameters + outputs_ * inputs_;
    weight_gradient_ = gradients;
    bias_gradient_ = gradients + outputs_ * inputs_;
  }

  void Forward(Math<T>* math, int64_t rows, const T* x, T* y) override {
    math->Multiply({.a = x,
                    .b = weight_,
                    .c = y,
                    .transpose_b = true,
                    .m = rows,
                    .n = outputs_,
                    .k = inputs_});
    math->AddBias(rows, outputs_, bias_, y);
  }

  absl::Status Backward(Math<T>* math, const BackwardPass<T>& pass,
                        const TensorReady& ready) override {
    // The tensors' gradients before dx: what is ready early can travel while dx is computed.
    math->SumRows(pass.rows, outputs_, pass.dy, bias_gradient_);
    RETURN_IF_ERROR(ready(kBias));
    math->Multiply({.a = pass.dy,
                    .b = pass.x,
                    .c = weight_gradient_,
                    .transpose_a = true,
                    .m = outputs_,
                    .n = inputs_,
                    .k = pass.rows});
    RETURN_IF_ERROR(ready(kWeight));
    if (pass.dx == nullptr) return absl::OkStatus();
    math->Multiply(
        {.a = pass.dy, .b = weight_, .c = pass.dx, .m = pass.rows, .n = inputs_, .k = outputs_});
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  const int64_t inputs_;
  const int64_t outputs_;
  T* weight_ = nullptr;
  T* bias_ = nullptr;
  T* weight_gradient_ = nullptr;
  T* bias_gradient_ = nullptr;
};

template <typename T>
class ReluLayer final : public Layer<T> {
 public:
  ReluLayer(std::string name, int64_t width) : name_(std::move(name)), width_(width) {}

  std::string name() const override { return name_; }
  int64_t inputs() const override { return width_; }
  int64_t outputs() const override { return width_; }
  std::vector<LayerTensor> tensors() const override { return {}; }
  void Bind(T* /*parameters*/, T* /*gradients*/) override {}

  void Forward(Math<T>* math, int64_t rows, const T* x, T* y) override {
    math->Relu(rows * width_, x, y);
  }
  absl::Status Backward(Math<T>* math, const BackwardPass<T>& pass,
                        const TensorReady& /*ready*/) override {
    if (pass.dx != nullptr) math->ReluGradient(pass.rows * width_, pass.y, pass.dy, pass.dx);
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  const int64_t width_;
};

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> MakeLinear(std::string name, int64_t inputs, int64_t outputs) {
  return std::make_unique<LinearLayer<T>>(std::move(name), inputs, outputs);
}

template <typename T>
std::unique_ptr<Layer<T>> MakeRelu(std::string name, int64_t width) {
  return std::make_unique<ReluLayer<T>>(std::move(name), width);
}

template std::unique_ptr<Layer<float>> MakeLinear(std::string, int64_t, int64_t);
template std::unique_ptr<Layer<double>> MakeLinear(std::string, int64_t, int64_t);
template std::unique_ptr<Layer<float>> MakeRelu(std::string, int64_t);
template std::unique_ptr<Layer<double>> MakeRelu(std::string, int64_t);

}  // namespace lockstep
