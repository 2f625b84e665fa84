// step.h: one step of a reduction: the value of `a op b` for each element type, as it is stored.
// fold.h says what the bits are; these are the definitions behind it. Internal to base/numeric.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/numeric/dtype.h"
#include "base/numeric/element.h"

namespace lockstep::numeric {

// Integers are added and multiplied unsigned, because signed overflow is undefined and unsigned
// wraps.
template <typename T>
struct WrapsIn {
  using Type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};
template <std::floating_point T>
struct WrapsIn<T> {
  using Type = T;
};
template <typename T>
using Wide = typename WrapsIn<T>::Type;

struct Sum {
  template <typename T>
  LOCKSTEP_INLINE static T Of(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
};

struct Prod {
  template <typename T>
  LOCKSTEP_INLINE static T Of(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  }
};

// In the element's arithmetic type, rounded back once.
template <typename Element, typename Op>
struct Arithmetic {
  using Stored = typename Element::Stored;
  LOCKSTEP_INLINE static Stored Of(Stored a, Stored b) {
    return Element::Narrow(Op::Of(Element::Widen(a), Element::Widen(b)));
  }
};

struct Smaller {
  template <typename T>
  LOCKSTEP_INLINE static T Of(T a, T b) {
    return b < a ? b : a;
  }
};

struct Larger {
  template <typename T>
  LOCKSTEP_INLINE static T Of(T a, T b) {
    return a < b ? b : a;
  }
};

template <typename Element>
concept IsFloat = requires {
  typename Element::Bits;
};

template <typename Element, typename Op>
struct Extreme {
  using Stored = typename Element::Stored;
  LOCKSTEP_INLINE static Stored Of(Stored a, Stored b) { return Op::Of(a, b); }
};

// Floats are compared as integers, which tells -0 from +0. Bits of one sign are in order already,
// negative ones the wrong way round: the key reverses those and is its own inverse.
template <IsFloat Element, typename Op>
struct Extreme<Element, Op> {
  using Bits = typename Element::Bits;
  using Stored = Bits;
  static constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();

  LOCKSTEP_INLINE static Bits Key(Bits bits) {
    return static_cast<Bits>(bits < 0 ? bits ^ kMagnitude : bits);
  }

  LOCKSTEP_INLINE static Bits Of(Bits a, Bits b) {
    const Bits magnitude = Larger::Of<Bits>(a & kMagnitude, b & kMagnitude);
    const Bits extreme = Key(Op::Of(Key(a), Key(b)));
    return magnitude > Element::kInfinity ? Element::kNan : extreme;
  }
};

template <typename Element, typename Use>
void WithStepOf(ReduceOp op, const Use& use) {
  switch (op) {
    case ReduceOp::kSum:
      return use(Arithmetic<Element, Sum>{});
    case ReduceOp::kMin:
      return use(Extreme<Element, Smaller>{});
    case ReduceOp::kMax:
      return use(Extreme<Element, Larger>{});
    case ReduceOp::kProd:
      return use(Arithmetic<Element, Prod>{});
    case ReduceOp::kAvg:
      break;  // a sum, and then Average
  }
  CHECK(false) << NameOf(op) << " " << static_cast<int>(op);
}

// Calls use(step), whose type has Stored and Of(a, b). Dies on numbers that are no dtype or
// reduction.
template <typename Use>
void WithStep(Dtype dtype, ReduceOp op, const Use& use) {
  switch (dtype) {
    case Dtype::kF32:
      return WithStepOf<Native<float>>(op, use);
    case Dtype::kF64:
      return WithStepOf<Native<double>>(op, use);
    case Dtype::kF16:
      return WithStepOf<F16>(op, use);
    case Dtype::kBf16:
      return WithStepOf<Bf16>(op, use);
    case Dtype::kI32:
      return WithStepOf<Native<int32_t>>(op, use);
    case Dtype::kI64:
      return WithStepOf<Native<int64_t>>(op, use);
    case Dtype::kU8:
      return WithStepOf<Native<uint8_t>>(op, use);
  }
  CHECK(false) << NameOf(dtype) << " " << static_cast<int>(dtype);
}

}  // namespace lockstep::numeric
