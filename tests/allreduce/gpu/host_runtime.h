// host_runtime.h: CUDA's runtime over the host: memory that other processes can map, streams that
// are threads, kernels on threads of the host. Handles are files of /proc, so an opened one has an
// address of its own, as on a GPU. Switches make it refuse and fail.
#pragma once

#include <atomic>
#include <memory>

#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {

struct HostCuda {
  std::atomic<int> devices = 8;          // 0: none
  std::atomic<int> driver = 13000;       // 0: no driver
  std::atomic<int> fitting = 264;        // blocks
  std::atomic<int> unreachable = -1;     // device that no other one reaches
  std::atomic<int> no_memory_on = -1;    // device
  std::atomic<int> missing_rank = -1;    // its blocks do nothing
  std::atomic<int> failing_launch = -1;  // device
  std::atomic<int> memory = 0;           // pieces of device memory in use, and opened ones
  std::atomic<int> launches = 0;
};
// Of this shared object.
HostCuda& TheHostCuda();

std::shared_ptr<Runtime> MakeHostRuntime();

}  // namespace lockstep::gpu
