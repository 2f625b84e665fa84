// host_gpu.h: a Math of the worker's GPU code over host memory.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "tests/support/places.h"
#include "tests/worker/gpu/host_math_device.h"
#include "worker/gpu/gpu_math.h"

namespace lockstep {

inline constexpr int64_t kHostGpuTimeoutMs = 2'000;

inline std::unique_ptr<GpuMemory> MakeHostGpuMemory(const HostGpuSettings& settings = {},
                                                    bool tf32 = false) {
  static const MonotonicClock clock;
  std::unique_ptr<gpu::MathDevice> device = MakeHostMathDevice(settings);
  const gpu::Answer opened =
      device->Open({.tf32 = tf32, .cublas = BinDir() + "/fake_gpu/whole/libcublas.so"});
  CHECK(opened.ok()) << opened.message;
  return std::make_unique<GpuMemory>(
      std::move(device),
      GpuMemoryOptions{.name = "worker 2, GPU 0", .timeout_ms = kHostGpuTimeoutMs}, clock);
}

inline std::unique_ptr<Math<float>> MakeHostGpuMath(const HostGpuSettings& settings = {}) {
  return MakeGpuMath(MakeHostGpuMemory(settings));
}

}  // namespace lockstep
