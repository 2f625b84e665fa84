// device.h: a GPU as far as the NCCL engine needs one: memory on both sides, copies, and a stream
// in whose order all of it happens. cuda_device.h is the one for real GPUs; tests have one over
// host memory. Errors: FailedPrecondition (no driver, driver too old, no device: each with its own
// words), ResourceExhausted (memory, with the bytes), Unavailable (the device reports an error).
// Threads: one at a time, which may change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::nccl {

struct DeviceState {
  int driver = 0;                 // CUDA version: 1000 * major + 10 * minor
  int runtime = 0;                // the same, of this program
  std::string machine;            // the same for all processes of one machine, and for no other
  std::vector<std::string> gpus;  // [index]: bus address; at least one
};

// Memory of a call on either side, the same bytes at the same places.
struct StagingMemory {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
};

class Device {
 public:
  // Must not be called while something of its stream is under way.
  virtual ~Device() = default;

  virtual absl::StatusOr<DeviceState> Look() = 0;
  // Takes one of the GPUs and makes a stream on it. Once.
  virtual absl::Status Open(int index) = 0;
  // Memory of at least `bytes`; what it gave before is gone if it was smaller.
  virtual absl::StatusOr<StagingMemory> Reserve(int64_t bytes) = 0;
  // Enqueue a copy of [first, first + bytes) of that memory to the other side.
  virtual absl::Status CopyIn(int64_t first, int64_t bytes) = 0;
  virtual absl::Status CopyOut(int64_t first, int64_t bytes) = 0;
  // Is all that was enqueued through? Never waits.
  virtual absl::StatusOr<bool> Idle() = 0;
  // The cudaStream_t, after making its GPU the calling thread's.
  virtual absl::StatusOr<void*> Stream() = 0;
};

}  // namespace lockstep::nccl
