// optimizer_rule.h: optimizer.h's update of one parameter, the definition behind its bits: the
// host's loops and the kernels of a GPU are made of it. What depends on the step alone stands in
// the rule. Pure.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/numeric/anywhere.h"
#include "base/numeric/dispatch.h"
#include "base/numeric/optimizer.h"

namespace lockstep::numeric {

struct SgdRule {
  float learning_rate = 0;
  float momentum = 0;
  // g: the mean gradient; v: velocity; w: the parameter. Returns the new w.
  LOCKSTEP_INLINE float Step(float g, float* v, float w) const {
    *v = CanonicalNan(momentum * *v + g);
    return CanonicalNan(w - learning_rate * *v);
  }
  // Momentum 0: no state to read or write.
  LOCKSTEP_INLINE float PlainStep(float g, float w) const {
    return CanonicalNan(w - learning_rate * g);
  }
};

template <bool kDecoupled>  // ADAMW: the decay is no part of the gradient
struct AdamRule {
  float learning_rate = 0;
  float beta1 = 0;
  float beta2 = 0;
  float rest1 = 0;  // 1 - beta1
  float rest2 = 0;
  float epsilon = 0;
  float weight_decay = 0;
  float shrink = 0;    // learning_rate weight_decay
  float correct1 = 0;  // 1 / (1 - beta1^t)
  float correct2 = 0;

  // m, v: both moments.
  LOCKSTEP_INLINE float Step(float g, float* m, float* v, float w) const {
    if (!kDecoupled) g += weight_decay * w;
    *m = CanonicalNan(beta1 * *m + rest1 * g);
    *v = CanonicalNan(beta2 * *v + (rest2 * g) * g);
    const float root = std::sqrt(*v * correct2) + epsilon;
    const float kept = kDecoupled ? w - shrink * w : w;
    return CanonicalNan(kept - learning_rate * ((*m * correct1) / root));
  }
};

inline SgdRule SgdRuleOf(const OptimizerOptions& options) {
  return {.learning_rate = options.learning_rate, .momentum = options.momentum};
}

template <bool kDecoupled>
AdamRule<kDecoupled> AdamRuleAt(const OptimizerOptions& options, int64_t step) {
  const auto over = [step](float beta) {
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), step)));
  };
  return {.learning_rate = options.learning_rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .rest1 = 1.0F - options.beta1,
          .rest2 = 1.0F - options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .shrink = options.learning_rate * options.weight_decay,
          .correct1 = over(options.beta1),
          .correct2 = over(options.beta2)};
}

}  // namespace lockstep::numeric
