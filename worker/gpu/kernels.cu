// kernels.cu: work.h's bodies on a GPU's threads, each of which takes every n-th part.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "worker/gpu/kernels.h"

namespace lockstep::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 4096;  // beyond that threads take several parts

template <typename OneWork>
__global__ void __launch_bounds__(kThreads) RunParts(const OneWork work) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < work.count();
       i += stride) {
    work(i);
  }
}

template <typename OneWork>
int Launch(const OneWork& work, cudaStream_t stream) {
  if (work.count() == 0) return cudaSuccess;
  const auto blocks =
      static_cast<unsigned>(std::min((work.count() + kThreads - 1) / kThreads, kBlocksMax));
  RunParts<<<blocks, kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace

int LaunchWork(const Work& work, void* stream) {
  return std::visit(
      [stream](const auto& one) { return Launch(one, static_cast<cudaStream_t>(stream)); }, work);
}

}  // namespace lockstep::gpu
