#include "base/numeric/sgd.h"

#include "base/check.h"
#include "base/numeric/dispatch.h"

namespace lockstep {
namespace {

using numeric::CanonicalNan;
using numeric::Load;
using numeric::Store;

struct Momentum {
  LOCKSTEP_INLINE static void Run(SgdOptions options, const std::byte* gradient_sum,
                                  std::byte* velocity, std::byte* parameters, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const float g = Load<float>(gradient_sum, i) / options.divisor;
      const float v = CanonicalNan(options.momentum * Load<float>(velocity, i) + g);
      const float w = Load<float>(parameters, i) - options.learning_rate * v;
      Store(velocity, i, v);
      Store(parameters, i, CanonicalNan(w));
    }
  }
};

}  // namespace

void SgdStep(const SgdOptions& options, const float* gradient_sum, float* velocity,
             float* parameters, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  numeric::Dispatch<Momentum>(isa, options, reinterpret_cast<const std::byte*>(gradient_sum),
                              reinterpret_cast<std::byte*>(velocity),
                              reinterpret_cast<std::byte*>(parameters), count);
}

}  // namespace lockstep
