// layer_stack.h: a model that is a chain of layers, each fed by the one before, ending in softmax
// cross-entropy. Owns the arenas and the activations, which grow to the largest batch seen.
// Shapes, errors, threads: model.h. T: float, double.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/model/arena.h"
#include "worker/model/layer.h"
#include "worker/model/math.h"
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
  std::span<T> parameters() override { return parameters_.span(); }
  std::span<T> gradients() override { return gradients_.span(); }

  void Init(uint64_t seed) override;
  absl::StatusOr<double> Loss(const BasicBatch<T>& batch) override;
  absl::StatusOr<double> ForwardBackward(const BasicBatch<T>& batch,
                                         const TensorReady& ready) override;

 private:
  absl::Status CheckBatch(const BasicBatch<T>& batch) const;
  void Reserve(int64_t rows);
  // Runs the layers and the loss; fills d_outputs_.back() if `with_gradient`.
  double Forward(const BasicBatch<T>& batch, bool with_gradient);

  const std::string description_;
  const std::vector<std::unique_ptr<Layer<T>>> layers_;
  const std::unique_ptr<Math<T>> math_;
  std::vector<NamedTensor> tensors_;
  std::vector<int64_t> fan_in_;    // of each tensor
  std::vector<int> first_tensor_;  // of each layer, index into tensors_
  Arena<T> parameters_;
  Arena<T> gradients_;
  int64_t rows_max_ = 0;             // that the following have room for
  std::vector<Arena<T>> outputs_;    // of each layer, (rows, outputs)
  std::vector<Arena<T>> d_outputs_;  // their gradients
};

}  // namespace lockstep
