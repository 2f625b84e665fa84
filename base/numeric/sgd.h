// sgd.h: SGD with momentum as in PyTorch (torch.optim.SGD, dampening 0, no Nesterov):
//   g = gradient_sum / divisor;  v = momentum * v + g;  w = w - learning_rate * v
// each operation rounded once, no contraction; same promise on bits as fold.h. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "base/numeric/isa.h"

namespace lockstep {

struct SgdOptions {
  float learning_rate = 0.1F;
  float momentum = 0.0F;
  float divisor = 1.0F;  // number of workers for MEAN, 1 for SUM
};

// `parameters`, `velocity`, `gradient_sum`: `count` floats each.
void SgdStep(const SgdOptions& options, const float* gradient_sum, float* velocity,
             float* parameters, int64_t count, Isa isa = BestIsa());

}  // namespace lockstep
