#include "base/numeric/convert.h"

#include <cstddef>

#include "base/check.h"
#include "base/numeric/dispatch.h"
#include "base/numeric/element.h"

namespace lockstep {
namespace {

using numeric::Native;

template <typename From, typename To>
struct ConvertBody {
  LOCKSTEP_INLINE static void Run(const std::byte* source, std::byte* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto value = numeric::Read<From>(source, i);
      numeric::Write<To>(target, i, static_cast<typename To::Value>(value));
    }
  }
};

template <typename Element>
void Run(bool to_f32, const void* source, void* target, int64_t count, Isa isa) {
  using F32 = Native<float>;
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(target);
  if (to_f32) return numeric::Dispatch<ConvertBody<Element, F32>>(isa, from, to, count);
  numeric::Dispatch<ConvertBody<F32, Element>>(isa, from, to, count);
}

}  // namespace

void Convert(Dtype from, const void* source, Dtype to, void* target, int64_t count, Isa isa) {
  CHECK_GE(count, 0);
  CHECK(from == Dtype::kF32 || to == Dtype::kF32) << NameOf(from) << " to " << NameOf(to);
  const bool to_f32 = to == Dtype::kF32;
  switch (to_f32 ? from : to) {
    case Dtype::kF16:
      return Run<numeric::F16>(to_f32, source, target, count, isa);
    case Dtype::kBf16:
      return Run<numeric::Bf16>(to_f32, source, target, count, isa);
    case Dtype::kF64:
      return Run<Native<double>>(to_f32, source, target, count, isa);
    default:
      CHECK(false) << NameOf(from) << " to " << NameOf(to);
  }
}

}  // namespace lockstep
