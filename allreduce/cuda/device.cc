#include "allreduce/cuda/device.h"

#include <cuda_runtime_api.h>

namespace lockstep::gpu {
namespace {

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Answer Judge(const DriverState& state, int needed) {
  if (state.driver == 0) {
    return {Refused::kNoDriver, "no NVIDIA driver on this machine: a GPU needs one"};
  }
  if (state.driver < state.runtime) {
    return {Refused::kDriverTooOld, "the NVIDIA driver is too old: it supports CUDA " +
                                        VersionText(state.driver) + ", this program needs " +
                                        VersionText(state.runtime)};
  }
  if (state.error != cudaSuccess && state.error != cudaErrorNoDevice) {
    return FromRuntime(state.error, "counting devices");
  }
  if (state.devices < needed) {
    return {Refused::kNoDevice, state.devices == 0
                                    ? "no CUDA device: the driver is here, but shows no GPU"
                                    : std::to_string(needed) + " GPUs are needed, there are " +
                                          std::to_string(state.devices)};
  }
  return {};
}

DriverState ReadDriverState() {
  DriverState state;
  cudaDriverGetVersion(&state.driver);
  cudaRuntimeGetVersion(&state.runtime);
  state.error = cudaGetDeviceCount(&state.devices);
  if (state.error != cudaSuccess) {
    state.devices = 0;
    cudaGetLastError();  // or it would stick to the next call
  }
  return state;
}

DeviceInfo DescribeDevice(int index) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return {};
  return {.name = properties.name,
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
