// gpu_memory.h: a model's memory on a GPU, with pinned memory of the host beside it. It owns the
// device, and every call on it goes through here: the first error is kept and named after worker,
// GPU and call, and nothing is enqueued after it.
// Errors: Internal (a call failed; the GPU was not through after `timeout_ms`), the abort's.
// Threads: memory.h.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/sync.h"
#include "worker/gpu/math_device.h"
#include "worker/model/memory.h"

namespace lockstep {

struct GpuMemoryOptions {
  std::string name;              // "worker 2, GPU 0 (NVIDIA H200)"
  int64_t timeout_ms = 0;        // of all that one Await waits for
  const Abort* abort = nullptr;  // ends an Await, for good; null: nothing does
};

class GpuMemory final : public Memory {
 public:
  // `device` is open; `clock` must outlive this object.
  GpuMemory(std::unique_ptr<gpu::MathDevice> device, GpuMemoryOptions options, const Clock& clock);
  ~GpuMemory() override;

  bool on_host() const override { return false; }
  std::byte* TakeOperands(int64_t bytes) override;
  void ReturnOperands(std::byte* memory) override;
  std::byte* TakeStaged(int64_t bytes) override;
  void ReturnStaged(std::byte* memory) override;
  void Copy(void* target, const void* source, int64_t bytes) override;
  std::unique_ptr<Delivery> MakeDelivery() override;
  absl::Status Await() override;

  // For Math and the optimizer, in the order of the calls.
  void Multiply(const gpu::MatrixProduct& product);
  void Run(const gpu::Work& work);

 private:
  class EventDelivery;

  // Calls the device unless something has failed before; returns whether all is well.
  template <typename Call>
  bool Do(const Call& call);
  void* MakeEvent();
  // `made`, or memory of the host in the place of what an error kept from being made.
  std::byte* OrHost(std::byte* made, int64_t bytes);
  bool ReturnedToHost(std::byte* memory);
  absl::Status AwaitEvent(void* event);
  // Once the abort is requested.
  void Stop();
  absl::Status status() const;

  const std::unique_ptr<gpu::MathDevice> device_;
  const GpuMemoryOptions options_;
  const Clock& clock_;
  mutable Mutex mu_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);  // the first one, for good
  void* through_ = nullptr;                    // Await's event
  std::set<std::byte*> of_host_;               // given out by OrHost
};

}  // namespace lockstep
