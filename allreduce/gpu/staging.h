// staging.h: one rank's data on their way to where kernels work and back: its stream, pinned memory
// of the host, and its staging memory on the GPU. Data may be the host's or the GPU's. Who waits,
// and for how long, is the caller's matter. Errors: gang.h. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/cuda/runtime.h"
#include "base/numeric/dtype.h"

namespace lockstep::gpu {

struct Range {  // of bytes
  int64_t first = 0;
  int64_t end = 0;
};

// What a call is to the kernels, and which of its bytes this rank brings and takes back.
struct Job {
  std::byte* data = nullptr;
  int64_t bytes = 0;          // of the data
  Dtype dtype = Dtype::kI32;  // of the kernel
  ReduceOp op = ReduceOp::kSum;
  bool widened = false;  // each byte is an i32 there
  bool on_device = false;
  Range in;  // elsewhere it brings zeros
  Range out;
};

// Of a job, as many bytes as fit.
struct Portion {
  Range bytes;
  int64_t staged_bytes = 0;  // whole elements of the kernel's
};
// The portion that begins with byte `first`. REQUIRES: room is a multiple of 16.
Portion PortionOf(const Job& job, int64_t first, int64_t room);

class Staging {
 public:
  // `runtime` must outlive it.
  static absl::StatusOr<std::unique_ptr<Staging>> Make(Runtime* runtime, int device, int64_t bytes);
  // Must not be called while something is under way.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Enqueue; the host's side is read at once, and written by Deliver once all is through.
  absl::Status BringIn(const Job& job, const Portion& portion, std::byte* staging);
  absl::Status TakeOut(const Job& job, const Portion& portion, std::byte* staging);
  void Deliver(const Job& job, const Portion& portion);

  absl::Status Copy(void* target, const void* source, int64_t bytes);
  absl::StatusOr<bool> Idle();
  std::byte* host() { return host_; }

 private:
  Staging(Runtime* runtime, int device) : runtime_(*runtime), device_(device) {}

  Runtime& runtime_;
  const int device_;
  void* stream_ = nullptr;
  std::byte* host_ = nullptr;
};

}  // namespace lockstep::gpu
