// cuda_device.h: a real GPU for the NCCL engine: pinned host memory, copies by cudaMemcpyAsync.
// Errors, threads: device.h. The program starts without a driver too; then Look says so.
#pragma once

#include <memory>

#include "allreduce/nccl/device.h"

namespace lockstep::nccl {

std::unique_ptr<Device> MakeCudaDevice();

}  // namespace lockstep::nccl
