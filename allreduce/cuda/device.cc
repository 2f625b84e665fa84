#include "allreduce/cuda/device.h"

#include <cuda_runtime_api.h>

namespace lockstep::gpu {
DriverState ReadDriverState() {
  DriverState state;
  cudaDriverGetVersion(&state.driver);
  cudaRuntimeGetVersion(&state.runtime);
  state.error = cudaGetDeviceCount(&state.devices);
  if (state.error != cudaSuccess) {
    state.devices = 0;
    state.error_text = cudaGetErrorString(static_cast<cudaError_t>(state.error));
    cudaGetLastError();  // or it would stick to the next call
  }
  return state;
}

DeviceInfo DescribeDevice(int index) {
  cudaDeviceProp properties;
  char address[32] = {};
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess ||
      cudaDeviceGetPCIBusId(address, sizeof(address), index) != cudaSuccess) {
    return {};
  }
  return {.name = properties.name,
          .address = address,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
          .l2_bytes = properties.l2CacheSize};
}

Answer FromRuntime(int error, const std::string& operation) {
  if (error == cudaSuccess) return {};
  return {Refused::kDevice, operation + ": " + cudaGetErrorString(static_cast<cudaError_t>(error))};
}

}  // namespace lockstep::gpu
