// The shared object that stands where the NCCL engine's does: the same engine, over host memory.
#include <cstdlib>

#include "allreduce/engine/library.h"
#include "allreduce/nccl/library.h"
#include "tests/allreduce/nccl/host_device.h"

extern "C" __attribute__((visibility("default"))) lockstep::EngineLibrary*
LockstepMakeEngineLibrary(const lockstep::LibrarySetup& setup) {
  return new lockstep::nccl::NcclLibrary(setup, lockstep::MakeHostDevice);  // the caller's
}

extern "C" __attribute__((visibility("default"))) lockstep::HostGpus* LockstepHostGpus() {
  return &lockstep::TheHostGpus();
}
