// host_runtime.h: CUDA's runtime over the host: memory that other processes can map, streams that
// are threads, kernels on threads of the host. Handles are files of /proc, so an opened one has an
// address of its own, as on a GPU. An event is a HostEvent. Switches make it refuse and
// fail.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {

struct HostEvent {
  std::atomic<bool> reached = false;
  std::chrono::steady_clock::time_point at;  // once it is
};

struct HostCuda {
  std::atomic<int> devices = 8;          // 0: none
  std::atomic<int> driver = 13000;       // 0: no driver
  std::atomic<int> fitting = 264;        // blocks
  std::atomic<int> unreachable = -1;     // device that no other one reaches
  std::atomic<int> no_memory_on = -1;    // device
  std::atomic<int> missing_rank = -1;    // its blocks do nothing
  std::atomic<int> wrong_rank = -1;      // the first byte of its results is wrong
  std::atomic<int> failing_launch = -1;  // device
  std::atomic<int> unknown_on = -1;      // device that does not tell whose memory an address is
  std::atomic<int> sharing_error = 0;    // CUDA's, of opening another process's memory
  std::atomic<int> deaf_rank = -1;       // its blocks end at no deadline and no stop
  std::atomic<int> memory = 0;           // pieces of device memory in use, and opened ones
  std::atomic<int> launches = 0;
  std::atomic<int> handles = 0;          // made for other processes
  std::atomic<int> asked_for_event = 0;  // how often
};
// Of this shared object.
HostCuda& TheHostCuda();

std::shared_ptr<Runtime> MakeHostRuntime();

}  // namespace lockstep::gpu
