#include "worker/model/layer_stack.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/numeric/random.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Apart from the streams of other uses of the same seed (worker/data/sampler.cc).
constexpr uint64_t kInitStream = uint64_t{2} << 32;

}  // namespace

template <typename T>
LayerStack<T>::LayerStack(std::string description, std::vector<std::unique_ptr<Layer<T>>> layers,
                          std::unique_ptr<Math<T>> math)
    : description_(std::move(description)),
      layers_(std::move(layers)),
      math_(std::move(math)),
      memory_(math_->memory()) {
  CHECK(!layers_.empty());
  int64_t count = 0;
  std::vector<int64_t> layer_offsets;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer<T>& layer = *layers_[i];
    if (i > 0) CHECK_EQ(layer.inputs(), layers_[i - 1]->outputs()) << layer.name();
    layer_offsets.push_back(count);
    first_tensor_.push_back(static_cast<int>(tensors_.size()));
    for (const LayerTensor& tensor : layer.tensors()) {
      tensors_.push_back({.name = absl::StrCat(layer.name(), ".", tensor.name),
                          .span = {.offset = count, .count = tensor.count}});
      fan_in_.push_back(tensor.fan_in);
      count += tensor.count;
    }
  }
  parameters_ = Mirror<T>(memory_, count);
  gradients_ = Mirror<T>(memory_, count);
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->Bind(parameters_.operands() + layer_offsets[i],
                     gradients_.operands() + layer_offsets[i]);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) deliveries_.push_back(memory_->MakeDelivery());
}

// Uniform over +-1/sqrt(fan_in), as torch.nn.Linear starts. Paper: He et al., ICCV 2015.
template <typename T>
void LayerStack<T>::Init(uint64_t seed) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Random random(seed, kInitStream + i);
    const float bound = 1.0F / std::sqrt(static_cast<float>(fan_in_[i]));
    T* values = parameters().data() + tensors_[i].span.offset;
    for (int64_t element = 0; element < tensors_[i].span.count; ++element) {
      const float value = (2.0F * random.Uniform() - 1.0F) * bound;
      values[element] = static_cast<T>(value);
    }
  }
  StoreParameters();
}

template <typename T>
absl::Status LayerStack<T>::CheckBatch(const BasicBatch<T>& batch) const {
  const auto rows = static_cast<int64_t>(batch.labels.size());
  const auto values = static_cast<int64_t>(batch.inputs.size());
  if (rows < 1) return absl::InvalidArgumentError(absl::StrCat(description_, ": empty batch"));
  if (values != rows * inputs()) {
    return absl::InvalidArgumentError(absl::StrCat(description_, ": ", rows, " rows of ", inputs(),
                                                   " features are ", rows * inputs(),
                                                   " values, the batch has ", values));
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t label = batch.labels[static_cast<size_t>(row)];
    if (label < 0 || label >= classes()) {
      return absl::InvalidArgumentError(absl::StrCat(description_, ": label ", label, " in row ",
                                                     row, ", but there are ", classes(),
                                                     " classes"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
void LayerStack<T>::Reserve(int64_t rows) {
  if (rows <= rows_max_) return;
  outputs_.clear();
  d_outputs_.clear();
  for (const auto& layer : layers_) {
    outputs_.emplace_back(memory_, rows * layer->outputs());
    d_outputs_.emplace_back(memory_, rows * layer->outputs());
  }
  losses_ = Mirror<T>(memory_, rows);
  if (!memory_->on_host()) {
    inputs_ = Operands<T>(memory_, rows * inputs());
    labels_ = Operands<int32_t>(memory_, rows);
  }
  rows_max_ = rows;
}

template <typename T>
template <typename U>
const U* LayerStack<T>::Place(std::span<const U> values, const Operands<U>& place) {
  if (memory_->on_host()) return values.data();
  memory_->Copy(place.data(), values.data(), static_cast<int64_t>(values.size_bytes()));
  return place.data();
}

template <typename T>
const T* LayerStack<T>::Forward(const BasicBatch<T>& batch, bool with_gradient) {
  const auto rows = static_cast<int64_t>(batch.labels.size());
  Reserve(rows);
  const T* const inputs = Place(batch.inputs, inputs_);
  const T* x = inputs;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->Forward(math_.get(), rows, x, outputs_[i].data());
    x = outputs_[i].data();
  }
  math_->SoftmaxCrossEntropy({.rows = rows,
                              .classes = classes(),
                              .logits = x,
                              .labels = Place(batch.labels, labels_),
                              .losses = losses_.operands(),
                              .gradient = with_gradient ? d_outputs_.back().data() : nullptr});
  losses_.ToHost();
  return inputs;
}

template <typename T>
double LayerStack<T>::MeanLoss(int64_t rows) const {
  double sum = 0;
  for (const T loss : losses_.host().first(static_cast<size_t>(rows))) {
    sum += static_cast<double>(loss);
  }
  return sum / static_cast<double>(rows);
}

template <typename T>
absl::StatusOr<double> LayerStack<T>::Loss(const BasicBatch<T>& batch) {
  RETURN_IF_ERROR(CheckBatch(batch));
  Forward(batch, false);
  RETURN_IF_ERROR(memory_->Await());
  return MeanLoss(static_cast<int64_t>(batch.labels.size()));
}

template <typename T>
absl::StatusOr<double> LayerStack<T>::ForwardBackward(const BasicBatch<T>& batch,
                                                      const TensorReady& ready) {
  RETURN_IF_ERROR(CheckBatch(batch));
  const T* const inputs = Forward(batch, true);
  const auto rows = static_cast<int64_t>(batch.labels.size());
  for (size_t left = layers_.size(); left > 0; --left) {
    const size_t i = left - 1;
    const BackwardPass<T> pass = {.rows = rows,
                                  .x = i > 0 ? outputs_[i - 1].data() : inputs,
                                  .y = outputs_[i].data(),
                                  .dy = d_outputs_[i].data(),
                                  .dx = i > 0 ? d_outputs_[i - 1].data() : nullptr};
    const int first_tensor = first_tensor_[i];
    RETURN_IF_ERROR(layers_[i]->Backward(
        math_.get(), pass, [&](int tensor) { return IsFinal(first_tensor + tensor, ready); }));
  }
  RETURN_IF_ERROR(memory_->Await());
  return MeanLoss(rows);
}

// Nothing is computed after the first tensor's gradient: whoever is told of it may take the time.
template <typename T>
absl::Status LayerStack<T>::IsFinal(int tensor, const TensorReady& ready) {
  if (tensor == 0) RETURN_IF_ERROR(memory_->Await());
  return ready ? ready(tensor) : absl::OkStatus();
}

template <typename T>
void LayerStack<T>::ScaleGradient(int tensor, T factor) {
  const TensorSpan& span = tensors_[static_cast<size_t>(tensor)].span;
  math_->Scale(span.count, factor, gradients_.operands() + span.offset);
}

template <typename T>
void LayerStack<T>::SendGradients(const Bucket& bucket) {
  deliveries_[static_cast<size_t>(bucket.first_tensor)]->Start(
      reinterpret_cast<std::byte*>(gradients().data() + bucket.offset),
      reinterpret_cast<const std::byte*>(gradients_.operands() + bucket.offset),
      bucket.count * int64_t{sizeof(T)});
}

template <typename T>
absl::Status LayerStack<T>::AwaitGradients(const Bucket& bucket) {
  return deliveries_[static_cast<size_t>(bucket.first_tensor)]->Await();
}

template <typename T>
absl::Status LayerStack<T>::FetchParameters() {
  if (std::exchange(updated_, false)) parameters_.ToHost();
  return memory_->Await();
}

template class LayerStack<float>;
template class LayerStack<double>;

}  // namespace lockstep
