// entry.h: the __global__ function around a body (body.h), and its instances. For nvcc alone.
#pragma once

#include "allreduce/cuda/body.h"
#include "allreduce/cuda/device_team.h"
#include "allreduce/cuda/kernels.h"
#include "allreduce/cuda/reduction.h"

namespace lockstep::gpu {

template <typename F, Kernel kernel>
__global__ void __launch_bounds__(kThreadsMax, kBlocksPerProcessor)
    RunKernel(const __grid_constant__ Call call, const Block* blocks) {
  DeviceTeam team(call.one_device);
  RunBlock<F, kernel>(&team, call, blocks[blockIdx.x]);
}

template <Kernel kernel>
const void* InstanceOf(Dtype dtype, ReduceOp op) {
  return WithReduction(dtype, op, [](auto reduction) {
    return reinterpret_cast<const void*>(&RunKernel<decltype(reduction), kernel>);
  });
}

}  // namespace lockstep::gpu
