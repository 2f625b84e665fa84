// layers.h: linear and ReLU. T: float, double. Shapes and threads: layer.h.
#pragma once

#include <memory>

#include "worker/model/layer.h"

namespace lockstep {

// y = x weight^T + bias; weight (outputs, inputs) and bias (outputs) as in torch.nn.Linear.
template <typename T>
std::unique_ptr<Layer<T>> MakeLinear(std::string name, int64_t inputs, int64_t outputs);

// y = max(x, 0), over `width` features; its gradient at 0 is 0.
template <typename T>
std::unique_ptr<Layer<T>> MakeRelu(std::string name, int64_t width);

}  // namespace lockstep
