// runtime.h: the calls of CUDA's runtime that groups of kernels need, so that a stand-in over host
// memory and host threads runs everything above them in tests. MakeCudaRuntime: the one for GPUs.
// A stream is a cudaStream_t, an event a cudaEvent_t. Errors: device.h. Threads: any; objects made
// here one at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "allreduce/cuda/call.h"
#include "allreduce/cuda/device.h"
#include "base/numeric/dtype.h"

namespace lockstep::gpu {

struct KernelLaunch {
  int device = 0;
  void* stream = nullptr;
  Kernel kernel = Kernel::kRing;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  int block_count = 0;
  int threads = 0;                // of a block
  const Block* blocks = nullptr;  // in the device's memory
  Call call;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual DriverState State() = 0;
  virtual DeviceInfo Describe(int device) = 0;

  // Not zeroed; an allocation of its own, which a handle can name.
  virtual Answer Allocate(int device, int64_t bytes, std::byte** made) = 0;
  virtual void Free(int device, std::byte* memory) = 0;
  // Zeroed, pinned, at the same address on every device.
  virtual Answer AllocateHost(int64_t bytes, std::byte** made) = 0;
  virtual void FreeHost(std::byte* memory) = 0;
  // The device whose memory this is, or kHost. `device`: the one that the caller uses.
  static constexpr int kHost = -1;
  virtual Answer DeviceOf(int device, const void* address, int* where) = 0;

  // `device` may then reach `peer`'s memory. kNoPeerAccess.
  virtual Answer EnableAccess(int device, int peer) = 0;
  // For another process, of kHandleBytes; it opens it on a device of its own. kNoSharing,
  // kNoPeerAccess.
  static constexpr size_t kHandleBytes = 64;
  virtual Answer HandleOf(std::byte* memory, std::string* handle) = 0;
  virtual Answer OpenHandle(int device, const std::string& handle, std::byte** made) = 0;
  virtual void CloseHandle(int device, std::byte* memory) = 0;

  // Of the highest priority, so that an exchange's blocks come before those of a backward pass.
  virtual Answer MakeStream(int device, void** made) = 0;
  virtual void DestroyStream(int device, void* stream) = 0;
  // Enqueues; either side may be the host's.
  virtual Answer Copy(int device, void* stream, void* target, const void* source,
                      int64_t bytes) = 0;
  virtual Answer Zero(int device, void* stream, std::byte* memory, int64_t bytes) = 0;
  // Is all that was enqueued through? Never waits.
  virtual Answer Query(int device, void* stream, bool* idle) = 0;
  // An event of a stream of this device, with the time at which it was reached.
  virtual Answer MakeEvent(int device, void** made) = 0;
  virtual void DestroyEvent(int device, void* event) = 0;
  virtual Answer Record(int device, void* stream, void* event) = 0;
  // Is all through that stood before this event in its stream? Never waits.
  virtual Answer Reached(int device, void* event, bool* reached) = 0;
  // REQUIRES: both are reached.
  virtual Answer ElapsedUs(int device, void* begin, void* end, double* elapsed_us) = 0;

  // How many blocks the device holds at once.
  virtual Answer BlocksThatFit(const KernelLaunch& launch, int* blocks) = 0;
  // Enqueues a cooperative launch: all blocks are resident at once, or it is refused.
  virtual Answer Launch(const KernelLaunch& launch) = 0;
};

// Waits until all is through that was enqueued. kDevice: it is not within `limit`; `what` says what
// that was.
Answer AwaitStream(Runtime* runtime, int device, void* stream, std::chrono::milliseconds limit,
                   const std::string& what);

// Are there `needed` devices?
inline Answer CheckDevices(Runtime* runtime, int needed) { return Judge(runtime->State(), needed); }

std::unique_ptr<Runtime> MakeCudaRuntime();

}  // namespace lockstep::gpu
