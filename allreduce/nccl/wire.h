// wire.h: what our elements are to NCCL. Its MIN and MAX of floats lose NaN and do not order zeros,
// so they go as integers in the same order (NaN beyond all, -0 before +0; f16 and bf16 in 32 bits,
// because NCCL has no integers of 16). Sums and products of integers go as unsigned, which wrap.
// Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allreduce/nccl/abi.h"
#include "base/numeric/dtype.h"

namespace lockstep::nccl {

struct Wire {
  DataType type = kFloat32;
  RedOp op = nccl::kSum;
  int64_t element_bytes = 4;
  bool keys = false;  // floats as integers in the same order
};

// REQUIRES: not AVG, which is a sum and a division by the caller.
Wire WireOf(Dtype dtype, ReduceOp op);

// `count` elements at any address to the wire's, and back. REQUIRES: dtype and op are the wire's.
struct WireElements {
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;
};
void ToWire(const WireElements& elements, const void* source, std::byte* target);
void FromWire(const WireElements& elements, const std::byte* source, void* target);

}  // namespace lockstep::nccl
