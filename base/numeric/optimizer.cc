#include "base/numeric/optimizer.h"

#include <cmath>

#include "base/check.h"
#include "base/numeric/dispatch.h"

namespace lockstep {
namespace {

using numeric::CanonicalNan;
using numeric::Load;
using numeric::Store;

struct Arrays {
  const std::byte* gradient_sum;
  std::byte* state;
  int64_t stride;
  const std::byte* parameters;
  std::byte* updated;
  int64_t count;
};

// The mean of a sum. A power of two divides as its reciprocal multiplies, bit for bit, in a tenth
// of the time.
struct Quotient {
  float divisor;
  LOCKSTEP_INLINE float Of(float sum) const { return sum / divisor; }
};
struct Product {
  float factor;
  LOCKSTEP_INLINE float Of(float sum) const { return sum * factor; }
};
template <typename Use>
void WithMean(float divisor, const Use& use) {
  int exponent = 0;
  const float reciprocal = 1.0F / divisor;
  if (std::frexp(divisor, &exponent) == 0.5F && std::isnormal(reciprocal)) {
    return use(Product{reciprocal});
  }
  use(Quotient{divisor});
}

template <typename Mean>
struct SgdKernel {
  LOCKSTEP_INLINE static void Run(OptimizerOptions options, Mean mean, Arrays a) {
    for (int64_t i = 0; i < a.count; ++i) {
      const float g = mean.Of(Load<float>(a.gradient_sum, i));
      const float v = CanonicalNan(options.momentum * Load<float>(a.state, i) + g);
      const float w = Load<float>(a.parameters, i) - options.learning_rate * v;
      Store(a.state, i, v);
      Store(a.updated, i, CanonicalNan(w));
    }
  }
};

// Momentum 0: no state to read or write.
template <typename Mean>
struct PlainSgdKernel {
  LOCKSTEP_INLINE static void Run(OptimizerOptions options, Mean mean, Arrays a) {
    for (int64_t i = 0; i < a.count; ++i) {
      const float g = mean.Of(Load<float>(a.gradient_sum, i));
      const float w = Load<float>(a.parameters, i) - options.learning_rate * g;
      Store(a.updated, i, CanonicalNan(w));
    }
  }
};

// What depends on the step alone: one over 1 - beta^t.
struct Corrections {
  float first;
  float second;
};
Corrections CorrectionsAt(const OptimizerOptions& options, int64_t step) {
  const auto over = [step](float beta) {
    return static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta), step)));
  };
  return {over(options.beta1), over(options.beta2)};
}

template <typename Mean, bool kDecoupled>  // ADAMW: the decay is no part of the gradient
struct AdamKernel {
  LOCKSTEP_INLINE static void Run(OptimizerOptions options, Mean mean, Corrections corrections,
                                  Arrays a) {
    const float rest1 = 1.0F - options.beta1;
    const float rest2 = 1.0F - options.beta2;
    const float shrink = kDecoupled ? options.learning_rate * options.weight_decay : 0.0F;
    for (int64_t i = 0; i < a.count; ++i) {
      const float w = Load<float>(a.parameters, i);
      float g = mean.Of(Load<float>(a.gradient_sum, i));
      if (!kDecoupled) g += options.weight_decay * w;
      const float m = CanonicalNan(options.beta1 * Load<float>(a.state, i) + rest1 * g);
      const float v =
          CanonicalNan(options.beta2 * Load<float>(a.state, a.stride + i) + (rest2 * g) * g);
      const float root = __builtin_sqrtf(v * corrections.second) + options.epsilon;
      const float kept = kDecoupled ? w - shrink * w : w;
      Store(a.state, i, m);
      Store(a.state, a.stride + i, v);
      Store(a.updated, i,
            CanonicalNan(kept - options.learning_rate * ((m * corrections.first) / root)));
    }
  }
};

}  // namespace

int64_t StateSlots(OptimizerKind kind) { return kind == OptimizerKind::kSgd ? 1 : 2; }

void OptimizerStep(const OptimizerOptions& options, int64_t step, const float* gradient_sum,
                   float* state, int64_t stride, const float* parameters, float* updated,
                   int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  CHECK_GE(stride, count);
  CHECK_GE(step, 1);
  const Arrays arrays = {reinterpret_cast<const std::byte*>(gradient_sum),
                         reinterpret_cast<std::byte*>(state),
                         stride,
                         reinterpret_cast<const std::byte*>(parameters),
                         reinterpret_cast<std::byte*>(updated),
                         count};
  WithMean(options.divisor, [&](auto mean) {
    using Mean = decltype(mean);
    switch (options.kind) {
      case OptimizerKind::kSgd:
        return options.momentum == 0.0F
                   ? numeric::Dispatch<PlainSgdKernel<Mean>>(isa, options, mean, arrays)
                   : numeric::Dispatch<SgdKernel<Mean>>(isa, options, mean, arrays);
      case OptimizerKind::kAdam:
        return numeric::Dispatch<AdamKernel<Mean, false>>(isa, options, mean,
                                                          CorrectionsAt(options, step), arrays);
      case OptimizerKind::kAdamW:
        return numeric::Dispatch<AdamKernel<Mean, true>>(isa, options, mean,
                                                         CorrectionsAt(options, step), arrays);
    }
    CHECK(false) << "no such optimizer: " << static_cast<int>(options.kind);
  });
}

}  // namespace lockstep
