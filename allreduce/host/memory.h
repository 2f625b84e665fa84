// memory.h: ordinary memory for the data of collectives. Errors: ResourceExhausted, with needed and
// available bytes. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace lockstep {

inline constexpr int64_t kAlignmentBytes = 64;  // a cache line, and the widest vector register

class AlignedMemory {
 public:
  // REQUIRES: bytes >= 0.
  static absl::StatusOr<AlignedMemory> Make(int64_t bytes);
  std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  AlignedMemory(std::byte* bytes, size_t size) : bytes_(bytes), size_(size) {}

  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_;
};

}  // namespace lockstep
