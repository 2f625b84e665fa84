// The shared object that stands where a worker's GPU does: the same interface, over host memory.
// The environment says what the machine has: LOCKSTEP_TEST_GPUS, LOCKSTEP_TEST_DRIVER (13000: CUDA
// 13.0; 0: none), and what goes wrong: LOCKSTEP_TEST_HANGS, LOCKSTEP_TEST_FAILS (a call's name).
#include <cstdlib>
#include <memory>

#include "tests/worker/gpu/host_math_device.h"

namespace {

const char* Text(const char* variable) {
  return std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it meanwhile
}

int Number(const char* variable, int otherwise) {
  const char* const text = Text(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) lockstep::gpu::MathDevice*
LockstepMakeMathDevice() {
  lockstep::HostGpuSettings settings;
  settings.state.devices = Number("LOCKSTEP_TEST_GPUS", 4);
  settings.state.driver = Number("LOCKSTEP_TEST_DRIVER", settings.state.runtime);
  if (const char* const fails = Text("LOCKSTEP_TEST_FAILS")) settings.fails = fails;
  settings.hangs = Number("LOCKSTEP_TEST_HANGS", 0) != 0;
  return lockstep::MakeHostMathDevice(settings).release();  // the caller's
}
