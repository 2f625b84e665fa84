// The shared object's one symbol: the NCCL engine over real GPUs.
#include "allreduce/engine/library.h"
#include "allreduce/nccl/cuda_device.h"
#include "allreduce/nccl/library.h"

extern "C" __attribute__((visibility("default"))) lockstep::EngineLibrary*
LockstepMakeEngineLibrary(const lockstep::LibrarySetup& setup) {
  return new lockstep::nccl::NcclLibrary(setup, lockstep::nccl::MakeCudaDevice);  // the caller's
}
