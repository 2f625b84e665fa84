// dispatch.h: one loop body, compiled once for each instruction set and chosen at run time.
// A body is a struct whose static Run(args...) is LOCKSTEP_INLINE: it must be inlined, because only
// then does the compiler vectorise it for the caller's target. Elements are read and written with
// Load and Store, so that any address is allowed. Internal to base/numeric; CHECKs that the
// processor has `isa`.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/numeric/anywhere.h"
#include "base/numeric/isa.h"

namespace lockstep::numeric {

// Element `index` of an array that may start at any address.
template <typename T>
LOCKSTEP_INLINE T Load(const std::byte* array, int64_t index) {
  T value;
  std::memcpy(&value, array + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
LOCKSTEP_INLINE void Store(std::byte* array, int64_t index, T value) {
  std::memcpy(array + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Which of two NaNs survives an addition depends on the order of the operands in the instruction,
// which the compiler picks anew for each loop. One NaN for all keeps the bits a function of the
// values.
template <typename T>
LOCKSTEP_INLINE T CanonicalNan(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <typename Body, typename... Args>
void RunBaseline(Args... args) {
  Body::Run(args...);
}

#if defined(__x86_64__)
template <typename Body, typename... Args>
__attribute__((target("avx2"))) void RunAvx2(Args... args) {
  Body::Run(args...);
}

template <typename Body, typename... Args>
__attribute__((target("avx512f"))) void RunAvx512(Args... args) {
  Body::Run(args...);
}
#endif

template <typename Body, typename... Args>
void Dispatch(Isa isa, Args... args) {
  CHECK(Supported(isa)) << "this processor has no " << NameOf(isa);
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return RunAvx512<Body>(args...);
  if (isa == Isa::kAvx2) return RunAvx2<Body>(args...);
#endif
  RunBaseline<Body>(args...);
}

}  // namespace lockstep::numeric
