// memory.h: where a model's arrays live, and how they get from there to the host's memory and back.
// Operands: what Math computes with. Staged: memory of the host that copies reach fastest. On the
// host (HostMemory) both are one and the same, and nothing is ever copied.
// Copies return at once and happen in the order of the calls, after everything that Math was asked
// for before. Errors: the first one is kept and comes out of each Await; after it nothing is done
// any more, so calls in between need no look at it. Threads: one, but for Delivery::Await.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "base/check.h"

namespace lockstep {

// The same bytes again and again on their way to the host, beside what is computed meanwhile.
class Delivery {
 public:
  virtual ~Delivery() = default;
  // Of what was computed so far.
  virtual void Start(std::byte* staged, const std::byte* operands, int64_t bytes) = 0;
  // Until the bytes are there. In any one thread, after Start.
  virtual absl::Status Await() = 0;
};

class Memory {
 public:
  virtual ~Memory() = default;

  virtual bool on_host() const = 0;
  // Zeroed, at a 64-byte boundary (a cache line, and the widest vector). After an
  // error: memory of the host, so that addresses within it may be made; nothing computes with it.
  virtual std::byte* TakeOperands(int64_t bytes) = 0;
  virtual void ReturnOperands(std::byte* memory) = 0;
  virtual std::byte* TakeStaged(int64_t bytes) = 0;
  virtual void ReturnStaged(std::byte* memory) = 0;
  // Between operands and the host. `source` must stay as it is until the next Await or Delivery.
  virtual void Copy(void* target, const void* source, int64_t bytes) = 0;
  virtual std::unique_ptr<Delivery> MakeDelivery() = 0;
  // Until all that was asked for is through.
  virtual absl::Status Await() = 0;
};

// The host's own; there is one.
Memory* HostMemory();

// A flat array of operands, zeroed. Its size never changes.
template <typename T>
class Operands {
 public:
  Operands() = default;
  // `memory` must outlive it.
  Operands(Memory* memory, int64_t count)
      : data_(reinterpret_cast<T*>(memory->TakeOperands(count * int64_t{sizeof(T)})),
              Return{memory}) {}
  T* data() const { return data_.get(); }

 private:
  struct Return {
    Memory* memory = nullptr;
    void operator()(T* data) const { memory->ReturnOperands(reinterpret_cast<std::byte*>(data)); }
  };
  std::unique_ptr<T, Return> data_;
};

}  // namespace lockstep
