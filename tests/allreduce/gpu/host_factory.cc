// The shared object that stands where the CUDA engine's does: the same engine, over host memory.
#include "allreduce/engine/library.h"
#include "allreduce/gpu/library.h"
#include "tests/allreduce/gpu/host_runtime.h"

extern "C" __attribute__((visibility("default"))) lockstep::EngineLibrary*
LockstepMakeEngineLibrary(const lockstep::LibrarySetup& setup) {
  return new lockstep::gpu::CudaLibrary(setup, lockstep::gpu::MakeHostRuntime());  // the caller's
}

extern "C" __attribute__((visibility("default"))) lockstep::gpu::HostCuda* LockstepHostCuda() {
  return &lockstep::gpu::TheHostCuda();
}

// Memory of a GPU for a test's data, zeroed.
extern "C" __attribute__((visibility("default"))) void* LockstepHostCudaAllocate(int device,
                                                                                 int64_t bytes) {
  std::byte* memory = nullptr;
  const auto made = lockstep::gpu::MakeHostRuntime()->Allocate(device, bytes, &memory);
  return made.ok() ? memory : nullptr;
}
