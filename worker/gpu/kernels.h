// kernels.h: launches the kernel of a piece of work. Implemented in kernels.cu; host code alone.
#pragma once

#include "worker/gpu/work.h"

namespace lockstep::gpu {

// Enqueues on `stream`, a cudaStream_t of the device that the calling thread has chosen. Returns
// the cudaError_t.
int LaunchWork(const Work& work, void* stream);

}  // namespace lockstep::gpu
