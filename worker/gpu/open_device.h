// open_device.h: a worker's GPU, out of a shared object of ours beside the program: a program
// starts and builds without CUDA. Worker i takes GPU i, modulo their number, as engine CUDA's ranks
// do. Errors: FailedPrecondition (each its own words: not built, no driver, driver too old, no GPU,
// more workers than GPUs, no cuBLAS or too old), Internal (a call on the GPU failed). Threads: any.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/gpu/math_device.h"

namespace lockstep {

// The object's one symbol. The caller owns what it makes.
inline constexpr char kMathDeviceFactory[] = "LockstepMakeMathDevice";
using MathDeviceFactory = gpu::MathDevice*();

// What a GPU needs to know of its process.
struct GpuPlace {
  std::string library_dir;  // holds liblockstep_math.so: the program's folder
  std::string cublas;       // its file; empty: where the loader finds it
};

// Before anything starts: can so many workers of this machine compute on its GPUs?
absl::Status CheckGpus(const GpuPlace& place, int workers, bool share_gpu);

struct OpenedDevice {
  std::unique_ptr<gpu::MathDevice> device;
  int index = 0;
  std::string gpu;      // "NVIDIA H200"
  std::string library;  // "cuBLAS 13.0.2"
};
absl::StatusOr<OpenedDevice> OpenDevice(const GpuPlace& place, int worker, bool tf32);

}  // namespace lockstep
