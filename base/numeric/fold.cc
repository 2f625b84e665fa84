#include "base/numeric/fold.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/numeric/dispatch.h"
#include "base/numeric/element.h"
#include "base/numeric/step.h"

namespace lockstep {
namespace {

using numeric::Dispatch;
using numeric::Load;
using numeric::Native;
using numeric::Read;
using numeric::Store;
using numeric::Write;

template <typename Step>
struct FoldLoop {
  using T = typename Step::Stored;
  LOCKSTEP_INLINE static void Run(const std::byte* source, std::byte* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Store(target, i, Step::Of(Load<T>(target, i), Load<T>(source, i)));
    }
  }
};

// A strip of every source is folded before the next one begins: intermediate values stay in
// registers or the nearest cache, and memory sees each byte once.
template <typename Step>
struct FoldAllLoop {
  using T = typename Step::Stored;
  static constexpr int64_t kStrip = 512 / sizeof(T);

  LOCKSTEP_INLINE static void Run(const FoldOperands* operands, int64_t count) {
    std::array<T, kStrip> values;
    int64_t first = 0;
    for (; first + kStrip <= count; first += kStrip) {
      const auto strip = std::integral_constant<int64_t, kStrip>();  // the loops need no rest
      RunStrip(*operands, first, strip, values.data());
    }
    if (first < count) RunStrip(*operands, first, count - first, values.data());
  }

  template <typename Count>
  LOCKSTEP_INLINE static void RunStrip(const FoldOperands& operands, int64_t first, Count count,
                                       T* values) {
    const std::byte* const start = operands.sources[0];
    for (int64_t i = 0; i < count; ++i) values[i] = Load<T>(start, first + i);
    for (size_t s = 1; s < operands.sources.size(); ++s) {
      const std::byte* const source = operands.sources[s];
      for (int64_t i = 0; i < count; ++i) {
        values[i] = Step::Of(values[i], Load<T>(source, first + i));
      }
      asm volatile("");  // or g++ jams several sources into one loop, and then does not vectorise
    }
    for (std::byte* const target : operands.targets) {
      for (int64_t i = 0; i < count; ++i) Store(target, first + i, values[i]);
    }
  }
};

template <typename Element>
struct Quotient {
  using Value = typename Element::Value;
  LOCKSTEP_INLINE static void Run(std::byte* values, Value divisor, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Write<Element>(values, i, Read<Element>(values, i) / divisor);
    }
  }
};

template <typename Element>
void DivideElements(void* values, int64_t divisor, int64_t count, Isa isa) {
  using Value = typename Element::Value;
  Dispatch<Quotient<Element>>(isa, static_cast<std::byte*>(values), static_cast<Value>(divisor),
                              count);
}

}  // namespace

void Fold(Dtype dtype, ReduceOp op, const void* source, void* target, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  numeric::WithStep(dtype, op, [&](auto step) {
    Dispatch<FoldLoop<decltype(step)>>(isa, static_cast<const std::byte*>(source),
                                       static_cast<std::byte*>(target), count);
  });
}

void FoldAll(Dtype dtype, ReduceOp op, const FoldOperands& operands, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  CHECK(!operands.sources.empty());
  numeric::WithStep(
      dtype, op, [&](auto step) { Dispatch<FoldAllLoop<decltype(step)>>(isa, &operands, count); });
}

void Divide(float* values, float divisor, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  Dispatch<Quotient<Native<float>>>(isa, reinterpret_cast<std::byte*>(values), divisor, count);
}

void Average(Dtype dtype, void* values, int64_t divisor, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  CHECK_GE(divisor, 1);
  switch (dtype) {
    case Dtype::kF32:
      return DivideElements<Native<float>>(values, divisor, count, isa);
    case Dtype::kF64:
      return DivideElements<Native<double>>(values, divisor, count, isa);
    case Dtype::kF16:
      return DivideElements<numeric::F16>(values, divisor, count, isa);
    case Dtype::kBf16:
      return DivideElements<numeric::Bf16>(values, divisor, count, isa);
    default:
      CHECK(false) << "the average of " << NameOf(dtype);
  }
}

}  // namespace lockstep
