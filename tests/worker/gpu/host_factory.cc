// The shared object that stands where a worker's GPU does: the same interface, over host memory.
// The environment says what the machine has: LOCKSTEP_TEST_GPUS, LOCKSTEP_TEST_DRIVER (13000:
// CUDA 13.0; 0: none), LOCKSTEP_TEST_HANGS.
#include <cstdlib>
#include <memory>

#include "tests/worker/gpu/host_math_device.h"

namespace {

int Number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) lockstep::gpu::MathDevice*
LockstepMakeMathDevice() {
  lockstep::HostGpuSettings settings;
  settings.state.devices = Number("LOCKSTEP_TEST_GPUS", 4);
  settings.state.driver = Number("LOCKSTEP_TEST_DRIVER", settings.state.runtime);
  settings.hangs = Number("LOCKSTEP_TEST_HANGS", 0) != 0;
  return lockstep::MakeHostMathDevice(settings).release();  // the caller's
}
