// kernels.h: the kernels as functions that a launch can be given. One translation unit for each
// kernel (kernel_*.cu), since each holds every dtype and reduction. For nvcc's units and launch.cu.
#pragma once

#include "allreduce/cuda/call.h"
#include "base/numeric/dtype.h"

namespace lockstep::gpu {

// Threads of a block, at most, and blocks that must fit on one multiprocessor: what the registers
// are limited for.
inline constexpr int kThreadsMax = 512;
inline constexpr int kBlocksPerProcessor = 2;

// __global__ void(Call, const Block*): block i runs blocks[i]. REQUIRES: a pair that FaultOf
// (arena.h) accepts.
const void* RingFunction(Dtype dtype, ReduceOp op);
const void* TreeFunction(Dtype dtype, ReduceOp op);  // both trees
const void* DirectFunction(Dtype dtype, ReduceOp op);
const void* PullFunction(Dtype dtype, ReduceOp op);
const void* PacketFunction(Dtype dtype, ReduceOp op);
const void* FunctionOf(Kernel kernel, Dtype dtype, ReduceOp op);

}  // namespace lockstep::gpu
