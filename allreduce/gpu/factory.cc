// The shared object's one symbol: our kernels over real GPUs.
#include "allreduce/engine/library.h"
#include "allreduce/gpu/library.h"

extern "C" __attribute__((visibility("default"))) lockstep::EngineLibrary*
LockstepMakeEngineLibrary(const lockstep::LibrarySetup& setup) {
  return new lockstep::gpu::CudaLibrary(setup, lockstep::gpu::MakeCudaRuntime());  // the caller's
}
