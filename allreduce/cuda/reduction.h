// reduction.h: one element's arithmetic in a kernel: widened when it is read, summed in the wide
// type, divided and rounded once when it is stored. So within one step of an algorithm (direct: all
// ranks; ring: two) f16 and bf16 are summed in f32. The operations are those of base/numeric, so
// NaN, -0 and integers that wrap are as on the CPU. Pure.
#pragma once

#include <cstdint>

#include "base/numeric/dtype.h"
#include "base/numeric/element.h"
#include "base/numeric/step.h"

namespace lockstep::gpu {

template <typename Element, typename Op>
struct Folding {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  LOCKSTEP_INLINE static Value Widen(Stored stored) { return Element::Widen(stored); }
  LOCKSTEP_INLINE static Value Combine(Value a, Value b) { return Op::Of(a, b); }
  LOCKSTEP_INLINE static Stored Finish(Value value, int32_t divisor) {
    return Element::Narrow(divisor == 1 ? value : value / static_cast<Value>(divisor));
  }
};

// MIN and MAX choose among values as they are stored.
template <typename Element, typename Op>
struct Choosing {
  using Stored = typename numeric::Extreme<Element, Op>::Stored;
  using Value = Stored;
  LOCKSTEP_INLINE static Value Widen(Stored stored) { return stored; }
  LOCKSTEP_INLINE static Value Combine(Value a, Value b) {
    return numeric::Extreme<Element, Op>::Of(a, b);
  }
  LOCKSTEP_INLINE static Stored Finish(Value value, int32_t /*divisor*/) { return value; }
};

template <typename Element, typename Use>
auto WithReductionOf(ReduceOp op, const Use& use) {
  switch (op) {
    case ReduceOp::kMin:
      return use(Choosing<Element, numeric::Smaller>{});
    case ReduceOp::kMax:
      return use(Choosing<Element, numeric::Larger>{});
    case ReduceOp::kProd:
      return use(Folding<Element, numeric::Prod>{});
    default:
      return use(Folding<Element, numeric::Sum>{});  // AVG: Finish divides
  }
}

inline constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kF16, Dtype::kBf16, Dtype::kI32,
                                    Dtype::kI64};

// Returns use(reduction). REQUIRES: one of kDtypes, an op that Supports (base/numeric/support.h).
template <typename Use>
auto WithReduction(Dtype dtype, ReduceOp op, const Use& use) {
  switch (dtype) {
    case Dtype::kF16:
      return WithReductionOf<numeric::F16>(op, use);
    case Dtype::kBf16:
      return WithReductionOf<numeric::Bf16>(op, use);
    case Dtype::kI32:
      return WithReductionOf<numeric::Native<int32_t>>(op, use);
    case Dtype::kI64:
      return WithReductionOf<numeric::Native<int64_t>>(op, use);
    default:
      return WithReductionOf<numeric::Native<float>>(op, use);
  }
}

}  // namespace lockstep::gpu
