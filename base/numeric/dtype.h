// dtype.h: element types and reductions of a collective, as data in headers and schedules' callers.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Dtype : uint8_t { kF32 = 0, kI64 = 1 };
enum class ReduceOp : uint8_t { kSum = 0 };

constexpr int64_t SizeOf(Dtype dtype) { return dtype == Dtype::kF32 ? 4 : 8; }
const char* NameOf(Dtype dtype);  // "f32"
const char* NameOf(ReduceOp op);  // "sum"

}  // namespace lockstep
