// math_device.h: what a worker needs of its GPU: memory on both sides, two queues, events between
// them, matrix products and the work of work.h. MakeCudaMathDevice: a real one; the tests have one
// over host memory. Products and work run on the compute queue; the copy queue has the highest
// priority, so that a bucket leaves while backward goes on.
// Everything enqueues and returns, but for allocations and Query, which never waits. Errors:
// device.h's, with the call. Threads: calls for one queue or event from one at a time. No Abseil.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "allreduce/cuda/device.h"
#include "worker/gpu/cublas.h"
#include "worker/gpu/work.h"

namespace lockstep::gpu {

struct MathDeviceChoice {
  int index = 0;            // of the GPU
  bool tf32 = false;        // products: math TF32, or STRICT
  std::string cublas = {};  // its file; empty: where the loader finds it
};

enum class Queue : uint8_t { kCompute = 0, kCopy = 1 };

class MathDevice {
 public:
  // After all that was enqueued is through.
  virtual ~MathDevice() = default;

  virtual DriverState State() = 0;
  // Loads cuBLAS; needs no GPU. `version`: "13.0.2".
  virtual Answer FindLibrary(const std::string& cublas, std::string* version) = 0;
  // Once, before everything below. REQUIRES: State has that many devices.
  virtual Answer Open(const MathDeviceChoice& choice) = 0;
  virtual DeviceInfo info() const = 0;

  // Zeroed, in the order of the compute queue. Freeing waits for all that was enqueued.
  virtual Answer Allocate(int64_t bytes, std::byte** made) = 0;
  virtual void Free(std::byte* memory) = 0;
  // Zeroed, pinned.
  virtual Answer AllocateHost(int64_t bytes, std::byte** made) = 0;
  virtual void FreeHost(std::byte* memory) = 0;

  virtual Answer Copy(Queue queue, void* target, const void* source, int64_t bytes) = 0;
  virtual Answer Multiply(const MatrixProduct& product) = 0;
  virtual Answer Run(const Work& work) = 0;

  virtual Answer MakeEvent(void** made) = 0;
  virtual void DestroyEvent(void* event) = 0;
  // `event` passes once all that `queue` was given so far is through.
  virtual Answer Record(Queue queue, void* event) = 0;
  // What `queue` is given from now on waits for it.
  virtual Answer WaitFor(Queue queue, void* event) = 0;
  virtual Answer Query(void* event, bool* passed) = 0;
};

std::unique_ptr<MathDevice> MakeCudaMathDevice();

}  // namespace lockstep::gpu
