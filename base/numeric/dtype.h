// dtype.h: element types and reductions of a collective, as data in headers and schedules' callers.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Dtype : uint8_t { kF32 = 0, kI64 = 1, kF64 = 2, kF16 = 3, kBf16 = 4, kI32 = 5, kU8 = 6 };
// AVG is the sum divided once by the number of contributors, after the last addition; floats only.
enum class ReduceOp : uint8_t { kSum = 0, kMin = 1, kMax = 2, kProd = 3, kAvg = 4 };

constexpr int64_t SizeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8:
      return 1;
    case Dtype::kF16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kF32:
    case Dtype::kI32:
      return 4;
    case Dtype::kI64:
    case Dtype::kF64:
      return 8;
  }
  return 0;  // no such type: callers check values from outside first
}
const char* NameOf(Dtype dtype);  // "f32", "bf16"
const char* NameOf(ReduceOp op);  // "sum"

}  // namespace lockstep
