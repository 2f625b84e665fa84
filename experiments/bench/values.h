// values.h: inputs whose reduction is known exactly in every dtype, so that every element can be
// compared bit by bit: small whole numbers that depend on rank and index. Exact up to 15 ranks in
// bf16, 120 in f16; u8 and products wrap as integers do. Pure.
#pragma once

#include <cstdint>

#include "base/numeric/dtype.h"

namespace lockstep {

// Input of `rank`: `count` elements.
void FillInput(int rank, Dtype dtype, ReduceOp op, void* data, int64_t count);

// Index of the first element that is not the reduction of the inputs of `contributors` ranks; -1:
// all are.
int64_t FirstWrong(int contributors, Dtype dtype, ReduceOp op, const void* data, int64_t count);

// Index of the first element whose reduction no longer fits in the dtype, so that it wraps modulo
// 2^bits; -1: none does. Floats never.
int64_t FirstWrapped(int contributors, Dtype dtype, ReduceOp op);

}  // namespace lockstep
