// host_device.h: the NCCL engine's device over host memory. "Host" and "device" side are two
// buffers, and copies and collectives run in order on a thread, so that a missing wait shows.
#pragma once

#include <atomic>
#include <memory>

#include "allreduce/nccl/device.h"

namespace lockstep {

struct HostGpus {
  std::atomic<int> visible = 8;  // 0: the device says that there is none
};
// Of this shared object.
HostGpus& TheHostGpus();

std::unique_ptr<nccl::Device> MakeHostDevice();

}  // namespace lockstep
