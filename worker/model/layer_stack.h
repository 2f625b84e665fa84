// layer_stack.h: a model that is a chain of layers, each fed by the one before, ending in softmax
// cross-entropy. Owns the arenas and the activations, which grow to the largest batch seen, all in
// the memory of its Math.
// Shapes, errors, threads: model.h. T: float, double.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/model/layer.h"
#include "worker/model/math.h"
#include "worker/model/memory.h"
#include "worker/model/mirror.h"
#include "worker/model/model.h"

namespace lockstep {

template <typename T>
class LayerStack final : public BasicModel<T> {
 public:
  // REQUIRES: at least one layer; each takes as many features as the one before gives.
  LayerStack(std::string description, std::vector<std::unique_ptr<Layer<T>>> layers,
             std::unique_ptr<Math<T>> math);

  std::string Describe() const override { return description_; }
  int64_t inputs() const override { return layers_.front()->inputs(); }
  int64_t classes() const override { return layers_.back()->outputs(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }
  std::span<T> parameters() override { return parameters_.host(); }
  std::span<T> gradients() override { return gradients_.host(); }

  void Init(uint64_t seed) override;
  absl::StatusOr<double> Loss(const BasicBatch<T>& batch) override;
  absl::StatusOr<double> ForwardBackward(const BasicBatch<T>& batch,
                                         const TensorReady& ready) override;
  void ScaleGradient(int tensor, T factor) override;
  void SendGradients(const Bucket& bucket) override;
  absl::Status AwaitGradients(const Bucket& bucket) override;
  typename BasicModel<T>::ComputedArenas computed_arenas() override {
    return {parameters_.operands(), gradients_.operands()};
  }
  void ParametersUpdated() override { updated_ = true; }
  void StoreParameters() override {
    if (!updated_) parameters_.ToOperands();
  }
  absl::Status FetchParameters() override;

 private:
  absl::Status CheckBatch(const BasicBatch<T>& batch) const;
  void Reserve(int64_t rows);
  // `values` as operands.
  template <typename U>
  const U* Place(std::span<const U> values, const Operands<U>& place);
  // Runs the layers and the losses; fills d_outputs_.back() if `with_gradient`. Returns the inputs.
  const T* Forward(const BasicBatch<T>& batch, bool with_gradient);
  absl::Status IsFinal(int tensor, const TensorReady& ready);
  // Over `rows` rows, once the memory was awaited.
  double MeanLoss(int64_t rows) const;

  const std::string description_;
  const std::vector<std::unique_ptr<Layer<T>>> layers_;
  const std::unique_ptr<Math<T>> math_;
  Memory* const memory_;
  std::vector<NamedTensor> tensors_;
  std::vector<int64_t> fan_in_;    // of each tensor
  std::vector<int> first_tensor_;  // of each layer, index into tensors_
  Mirror<T> parameters_;
  Mirror<T> gradients_;
  bool updated_ = false;  // the operands are newer than what the host sees
  std::vector<std::unique_ptr<Delivery>> deliveries_;  // [first tensor of a bucket]
  int64_t rows_max_ = 0;                               // that the following have room for
  std::vector<Operands<T>> outputs_;                   // of each layer, (rows, outputs)
  std::vector<Operands<T>> d_outputs_;                 // their gradients
  Operands<T> inputs_;        // (rows, inputs), where the batch itself is no operand
  Operands<int32_t> labels_;  // (rows), likewise
  Mirror<T> losses_;          // (rows)
};

}  // namespace lockstep
