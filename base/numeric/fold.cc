#include "base/numeric/fold.h"

#include <concepts>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/numeric/dispatch.h"
#include "base/numeric/element.h"

namespace lockstep {
namespace {

using numeric::Dispatch;
using numeric::Load;
using numeric::Native;
using numeric::Read;
using numeric::Store;
using numeric::Write;

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

template <typename Element, typename Op>
struct Arithmetic {
  LOCKSTEP_INLINE static void Run(const std::byte* source, std::byte* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Write<Element>(target, i, Op::Of(Read<Element>(target, i), Read<Element>(source, i)));
    }
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
  LOCKSTEP_INLINE static void Run(const std::byte* source, std::byte* target, int64_t count) {
    using T = typename Element::Stored;
    for (int64_t i = 0; i < count; ++i) {
      Store(target, i, Op::Of(Load<T>(target, i), Load<T>(source, i)));
    }
  }
};

// Floats are compared as integers, which tells -0 from +0. Bits of one sign are in order already,
// negative ones the wrong way round: the key reverses those and is its own inverse.
template <IsFloat Element, typename Op>
struct Extreme<Element, Op> {
  using Bits = typename Element::Bits;
  static constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();

  LOCKSTEP_INLINE static Bits Key(Bits bits) {
    return static_cast<Bits>(bits < 0 ? bits ^ kMagnitude : bits);
  }

  LOCKSTEP_INLINE static void Run(const std::byte* source, std::byte* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const Bits a = Load<Bits>(target, i);
      const Bits b = Load<Bits>(source, i);
      const Bits magnitude = Larger::Of<Bits>(a & kMagnitude, b & kMagnitude);
      const Bits extreme = Key(Op::Of(Key(a), Key(b)));
      Store(target, i, magnitude > Element::kInfinity ? Element::kNan : extreme);
    }
  }
};

struct DivideF32 {
  LOCKSTEP_INLINE static void Run(std::byte* values, float divisor, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Write<Native<float>>(values, i, Read<Native<float>>(values, i) / divisor);
    }
  }
};

struct Operands {
  const std::byte* source;
  std::byte* target;
  int64_t count;
  Isa isa;
};

template <typename Element>
void FoldElements(ReduceOp op, const Operands& of) {
  switch (op) {
    case ReduceOp::kSum:
      return Dispatch<Arithmetic<Element, Sum>>(of.isa, of.source, of.target, of.count);
    case ReduceOp::kMin:
      return Dispatch<Extreme<Element, Smaller>>(of.isa, of.source, of.target, of.count);
    case ReduceOp::kMax:
      return Dispatch<Extreme<Element, Larger>>(of.isa, of.source, of.target, of.count);
    case ReduceOp::kProd:
      return Dispatch<Arithmetic<Element, Prod>>(of.isa, of.source, of.target, of.count);
  }
  CHECK(false) << NameOf(op) << " " << static_cast<int>(op);
}

}  // namespace

void Fold(Dtype dtype, ReduceOp op, const void* source, void* target, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  const Operands of = {.source = static_cast<const std::byte*>(source),
                       .target = static_cast<std::byte*>(target),
                       .count = count,
                       .isa = isa};
  switch (dtype) {
    case Dtype::kF32:
      return FoldElements<Native<float>>(op, of);
    case Dtype::kF64:
      return FoldElements<Native<double>>(op, of);
    case Dtype::kF16:
      return FoldElements<numeric::F16>(op, of);
    case Dtype::kBf16:
      return FoldElements<numeric::Bf16>(op, of);
    case Dtype::kI32:
      return FoldElements<Native<int32_t>>(op, of);
    case Dtype::kI64:
      return FoldElements<Native<int64_t>>(op, of);
    case Dtype::kU8:
      return FoldElements<Native<uint8_t>>(op, of);
  }
  CHECK(false) << NameOf(dtype) << " " << static_cast<int>(dtype);
}

void Divide(float* values, float divisor, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  Dispatch<DivideF32>(isa, reinterpret_cast<std::byte*>(values), divisor, count);
}

}  // namespace lockstep
