// host_math_device.h: a GPU for the worker over host memory. Nothing runs when it is asked for:
// tasks wait in their queue until somebody asks for an event, and each question lets both queues
// make one step; so what was not waited for is not there. Outside of tasks the device's memory
// can't be touched. Products are those of the cuBLAS that is loaded.
#pragma once

#include <memory>
#include <string>

#include "worker/gpu/math_device.h"

namespace lockstep {

struct HostGpuSettings {
  gpu::DriverState state = {.driver = 13000, .runtime = 13000, .devices = 1};
  // The call whose text contains this fails, once it was made `fails_after` times before.
  std::string fails = {};
  int fails_after = 0;
  bool hangs = false;  // no event ever passes
};

std::unique_ptr<gpu::MathDevice> MakeHostMathDevice(const HostGpuSettings& settings);

}  // namespace lockstep
