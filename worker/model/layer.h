// layer.h: a differentiable function of rows, with its tensors. Written once over Math<T>.
// Shapes: x (rows, inputs()), y (rows, outputs()), dx and dy likewise; a layer's tensors lie one
// after the other in its slices of the arenas, in the order of tensors(). Errors: only the hook's.
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/model/math.h"
#include "worker/model/model.h"

namespace lockstep {

struct LayerTensor {
  std::string name;    // "weight"
  int64_t count = 0;   // elements
  int64_t fan_in = 0;  // inputs that one output sums, for the start values
};

template <typename T>
struct BackwardPass {
  int64_t rows = 0;
  const T* x = nullptr;
  const T* y = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;  // not wanted when null: nothing lies before the first layer
};

template <typename T>
class Layer {
 public:
  virtual ~Layer() = default;

  virtual std::string name() const = 0;
  virtual int64_t inputs() const = 0;
  virtual int64_t outputs() const = 0;
  virtual std::vector<LayerTensor> tensors() const = 0;
  // Where the layer's tensors and their gradients live; before the first pass. The layer owns
  // neither.
  virtual void Bind(T* parameters, T* gradients) = 0;

  virtual void Forward(Math<T>* math, int64_t rows, const T* x, T* y) = 0;
  // Overwrites the gradients and dx. `ready` gets indices into tensors(), last first.
  virtual absl::Status Backward(Math<T>* math, const BackwardPass<T>& pass,
                                const TensorReady& ready) = 0;
};

}  // namespace lockstep
