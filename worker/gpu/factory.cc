// The shared object's one symbol: a worker's GPU, a real one.
#include "worker/gpu/math_device.h"

extern "C" __attribute__((visibility("default"))) lockstep::gpu::MathDevice*
LockstepMakeMathDevice() {
  return lockstep::gpu::MakeCudaMathDevice().release();  // the caller's
}
