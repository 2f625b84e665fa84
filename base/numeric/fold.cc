#include "base/numeric/fold.h"

#include "base/check.h"
#include "base/numeric/dispatch.h"

namespace lockstep {
namespace {

using numeric::CanonicalNan;
using numeric::Dispatch;
using numeric::Load;
using numeric::Store;

struct AddF32 {
  LOCKSTEP_INLINE static void Run(const std::byte* source, std::byte* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Store(target, i, CanonicalNan(Load<float>(target, i) + Load<float>(source, i)));
    }
  }
};

// Unsigned, because signed overflow is undefined and unsigned wraps.
struct AddI64 {
  LOCKSTEP_INLINE static void Run(const std::byte* source, std::byte* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Store(target, i, Load<uint64_t>(target, i) + Load<uint64_t>(source, i));
    }
  }
};

struct DivideF32 {
  LOCKSTEP_INLINE static void Run(std::byte* values, float divisor, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Store(values, i, CanonicalNan(Load<float>(values, i) / divisor));
    }
  }
};

}  // namespace

void Fold(Dtype dtype, ReduceOp op, const void* source, void* target, int64_t count, Isa isa) {
  CHECK(op == ReduceOp::kSum) << NameOf(op);
  CHECK_GE(count, 0);
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(target);
  switch (dtype) {
    case Dtype::kF32:
      return Dispatch<AddF32>(isa, from, to, count);
    case Dtype::kI64:
      return Dispatch<AddI64>(isa, from, to, count);
  }
  CHECK(false) << NameOf(dtype) << " " << static_cast<int>(dtype);
}

void Divide(float* values, float divisor, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  Dispatch<DivideF32>(isa, reinterpret_cast<std::byte*>(values), divisor, count);
}

}  // namespace lockstep
