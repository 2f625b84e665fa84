// fake_fold.h: what NCCL promises of a reduction, and no more: MIN and MAX of floats lose NaN,
// signed sums that are too large saturate here, so that whoever needs more is found out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "allreduce/nccl/abi.h"
#include "base/numeric/half.h"

namespace lockstep {

inline size_t FakeSizeOf(nccl::DataType type) {
  switch (type) {
    case nccl::kUint8:
      return 1;
    case nccl::kFloat16:
    case nccl::kBfloat16:
      return 2;
    case nccl::kInt32:
    case nccl::kUint32:
    case nccl::kFloat32:
      return 4;
    default:
      return 8;
  }
}

template <typename T>
T FakeFoldOne(nccl::RedOp op, T a, T b) {
  if (op == nccl::kMin) return b < a ? b : a;
  if (op == nccl::kMax) return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    T result = 0;
    const bool over = op == nccl::kSum ? __builtin_add_overflow(a, b, &result)
                                       : __builtin_mul_overflow(a, b, &result);
    return over && std::is_signed_v<T> ? std::numeric_limits<T>::max() : result;
  } else {
    return op == nccl::kSum ? a + b : a * b;
  }
}

template <typename Stored, typename Widen, typename Narrow>
void FakeFoldAs(nccl::RedOp op, const std::byte* source, std::byte* target, size_t count,
                const Widen& widen, const Narrow& narrow) {
  for (size_t i = 0; i < count; ++i) {
    Stored a{};
    Stored b{};
    std::memcpy(&a, target + i * sizeof(Stored), sizeof(Stored));
    std::memcpy(&b, source + i * sizeof(Stored), sizeof(Stored));
    const Stored result = narrow(FakeFoldOne(op, widen(a), widen(b)));
    std::memcpy(target + i * sizeof(Stored), &result, sizeof(Stored));
  }
}

// target[i] = target[i] op source[i].
inline void FakeFold(nccl::DataType type, nccl::RedOp op, const std::byte* source,
                     std::byte* target, size_t count) {
  const auto plain = [&](auto zero) {
    const auto same = [](decltype(zero) value) { return value; };
    FakeFoldAs<decltype(zero)>(op, source, target, count, same, same);
  };
  switch (type) {
    case nccl::kUint8:
      return plain(uint8_t{0});
    case nccl::kInt32:
      return plain(int32_t{0});
    case nccl::kUint32:
      return plain(uint32_t{0});
    case nccl::kInt64:
      return plain(int64_t{0});
    case nccl::kUint64:
      return plain(uint64_t{0});
    case nccl::kFloat32:
      return plain(0.0F);
    case nccl::kFloat64:
      return plain(0.0);
    case nccl::kFloat16:
      return FakeFoldAs<uint16_t>(
          op, source, target, count, [](uint16_t h) { return F16ToF32(h); },
          [](float f) { return F32ToF16(f); });
    case nccl::kBfloat16:
      return FakeFoldAs<uint16_t>(
          op, source, target, count, [](uint16_t h) { return Bf16ToF32(h); },
          [](float f) { return F32ToBf16(f); });
  }
}

}  // namespace lockstep
