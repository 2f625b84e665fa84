// optimizer.h: one step of an optimizer over a range of the flat parameter space, as PyTorch does
// it. With g = gradient_sum / divisor and t the step, from 1:
//   SGD    v = momentum v + g;  w = w - learning_rate v            (no dampening, no Nesterov);
//          momentum 0: v is g, the state stays as it is
//   ADAM   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g;
//          w = w - learning_rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//          weight_decay is added to the gradient: g + weight_decay w
//   ADAMW  the same, but w shrinks by learning_rate weight_decay w beside the step
// Each operation is rounded once, no contraction; what depends on t alone is computed in double and
// rounded once. Same promise on bits as fold.h. Pure, thread-safe.
// Papers: Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019.
#pragma once

#include <cstdint>

#include "base/numeric/isa.h"

namespace lockstep {

enum class OptimizerKind : uint8_t { kSgd = 0, kAdam = 1, kAdamW = 2 };

struct OptimizerOptions {
  float learning_rate = 0.1F;
  float momentum = 0.0F;  // SGD
  float divisor = 1.0F;   // number of workers for MEAN, 1 for SUM
  OptimizerKind kind = OptimizerKind::kSgd;
  float beta1 = 0.9F;  // from here on: ADAM, ADAMW
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;

  bool operator==(const OptimizerOptions&) const = default;
};

// Floats of state that a parameter needs: 1 (velocity) or 2 (both moments).
int64_t StateSlots(OptimizerKind kind);

// `gradient_sum`, `parameters`, `updated`: `count` floats each; `updated` may be `parameters`.
// `state`: slot k of element i at state[k * stride + i], zeros before step 1; stride >= count.
void OptimizerStep(const OptimizerOptions& options, int64_t step, const float* gradient_sum,
                   float* state, int64_t stride, const float* parameters, float* updated,
                   int64_t count, Isa isa = BestIsa());

}  // namespace lockstep
