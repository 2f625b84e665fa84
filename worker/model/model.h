// model.h: what a worker trains: parameters and gradients as two flat arenas, a mean loss, and its
// gradient by backward passes. It knows nothing of other workers. Shapes: a batch is (rows,
// inputs()) features and (rows) labels; an arena is parameter_count() elements, tiled by tensors()
// in forward order without gaps. Errors: InvalidArgument (a batch that doesn't fit, with both
// numbers); a hook's error is passed on; those of the memory that the model computes in
// (memory.h). Threads: one, but for AwaitGradients. T is float in a run, double in the gradient
// checks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/bucket/bucket.h"

namespace lockstep {

template <typename T>
struct BasicBatch {
  std::span<const T> inputs;        // (rows, inputs())
  std::span<const int32_t> labels;  // (rows), 0 .. classes()-1
};

// Called once a tensor, in reverse order of tensors(), as soon as its gradient is final.
using TensorReady = std::function<absl::Status(int tensor)>;

template <typename T>
class BasicModel {
 public:
  virtual ~BasicModel() = default;

  virtual std::string Describe() const = 0;  // "mlp 64-256-256-10"
  virtual int64_t inputs() const = 0;        // features of a sample
  virtual int64_t classes() const = 0;
  virtual const std::vector<NamedTensor>& tensors() const = 0;
  // As the host sees them. A model that computes elsewhere has its own, and says below when the
  // two are brought together.
  virtual std::span<T> parameters() = 0;
  virtual std::span<T> gradients() = 0;

  // Start values from the seed alone: the same bits on every machine, and (rounded to float) for
  // every T.
  virtual void Init(uint64_t seed) = 0;
  // The mean loss over the batch, no gradients.
  virtual absl::StatusOr<double> Loss(const BasicBatch<T>& batch) = 0;
  // The mean loss over the batch; gradients() become those of that mean. `ready` may be empty.
  virtual absl::StatusOr<double> ForwardBackward(const BasicBatch<T>& batch,
                                                 const TensorReady& ready) = 0;

  // Multiplies a tensor's gradient, which `ready` has named.
  virtual void ScaleGradient(int tensor, T factor) = 0;
  // Whole tensors of gradients(), once `ready` has named them all: start, and wait in any one
  // thread.
  virtual void SendGradients(const Bucket& bucket) = 0;
  virtual absl::Status AwaitGradients(const Bucket& bucket) = 0;
  // Both arenas as what the model computes with, for an optimizer that runs there; it then says
  // that it has updated the parameters.
  struct ComputedArenas {
    T* parameters = nullptr;
    T* gradients = nullptr;
  };
  virtual ComputedArenas computed_arenas() = 0;
  virtual void ParametersUpdated() = 0;
  // A step is over: the next pass uses its parameters, whichever side they were written on.
  virtual void StoreParameters() = 0;
  // parameters() become those of the next pass.
  virtual absl::Status FetchParameters() = 0;

  int64_t parameter_count() { return static_cast<int64_t>(parameters().size()); }
  std::vector<TensorSpan> spans() const {
    std::vector<TensorSpan> result;
    for (const NamedTensor& tensor : tensors()) result.push_back(tensor.span);
    return result;
  }
};

using Batch = BasicBatch<float>;
using Model = BasicModel<float>;

}  // namespace lockstep
