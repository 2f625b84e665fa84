#include "base/numeric/optimizer.h"

#include <cmath>

#include "base/check.h"
#include "base/numeric/dispatch.h"
#include "base/numeric/optimizer_rule.h"

namespace lockstep {
namespace {

using numeric::AdamRule;
using numeric::AdamRuleAt;
using numeric::Load;
using numeric::SgdRule;
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
  LOCKSTEP_INLINE static void Run(SgdRule rule, Mean mean, Arrays a) {
    for (int64_t i = 0; i < a.count; ++i) {
      const float g = mean.Of(Load<float>(a.gradient_sum, i));
      float v = Load<float>(a.state, i);
      const float w = rule.Step(g, &v, Load<float>(a.parameters, i));
      Store(a.state, i, v);
      Store(a.updated, i, w);
    }
  }
};

template <typename Mean>
struct PlainSgdKernel {
  LOCKSTEP_INLINE static void Run(SgdRule rule, Mean mean, Arrays a) {
    for (int64_t i = 0; i < a.count; ++i) {
      const float g = mean.Of(Load<float>(a.gradient_sum, i));
      Store(a.updated, i, rule.PlainStep(g, Load<float>(a.parameters, i)));
    }
  }
};

template <typename Mean, bool kDecoupled>
struct AdamKernel {
  LOCKSTEP_INLINE static void Run(AdamRule<kDecoupled> rule, Mean mean, Arrays a) {
    for (int64_t i = 0; i < a.count; ++i) {
      const float g = mean.Of(Load<float>(a.gradient_sum, i));
      float m = Load<float>(a.state, i);
      float v = Load<float>(a.state, a.stride + i);
      const float w = rule.Step(g, &m, &v, Load<float>(a.parameters, i));
      Store(a.state, i, m);
      Store(a.state, a.stride + i, v);
      Store(a.updated, i, w);
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
      case OptimizerKind::kSgd: {
        const SgdRule rule = numeric::SgdRuleOf(options);
        return options.momentum == 0.0F
                   ? numeric::Dispatch<PlainSgdKernel<Mean>>(isa, rule, mean, arrays)
                   : numeric::Dispatch<SgdKernel<Mean>>(isa, rule, mean, arrays);
      }
      case OptimizerKind::kAdam:
        return numeric::Dispatch<AdamKernel<Mean, false>>(isa, AdamRuleAt<false>(options, step),
                                                          mean, arrays);
      case OptimizerKind::kAdamW:
        return numeric::Dispatch<AdamKernel<Mean, true>>(isa, AdamRuleAt<true>(options, step), mean,
                                                         arrays);
    }
    CHECK(false) << "no such optimizer: " << static_cast<int>(options.kind);
  });
}

}  // namespace lockstep
