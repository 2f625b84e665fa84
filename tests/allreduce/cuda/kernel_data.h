// kernel_data.h: the buffers of one call of every rank, for kernel tests: inputs whose sums are
// exact in every dtype, outputs full of poison between guards, at addresses that are as misaligned
// as asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/allreduce/cuda/host_group.h"

namespace lockstep::gpu {

class KernelData {
 public:
  // Every buffer begins `misaligned` bytes behind a multiple of 64.
  KernelData(int32_t ranks, const CallSpec& call, int64_t misaligned, bool in_place = false);

  HostCall call() const;
  std::byte* input(int32_t rank) { return Start(&inputs_, rank); }
  const std::byte* output(int32_t rank) const;

  // Every rank's output is the expected one, bit for bit, and nothing beside it was written.
  bool AllRight() const;
  // No byte of any output was written.
  bool Untouched() const;

 private:
  static constexpr int64_t kGuardBytes = 64;
  static constexpr std::byte kPoison{0xff};  // a NaN, or a number far off
  struct alignas(64) Chunk {
    std::byte bytes[64];
  };
  using Buffer = std::vector<Chunk>;

  int64_t Bytes() const { return spec_.count * SizeOf(spec_.dtype); }
  Buffer Poisoned() const;
  std::byte* Start(std::vector<Buffer>* buffers, int32_t rank) const {
    return (*buffers)[static_cast<size_t>(rank)].data()->bytes + kGuardBytes + misaligned_;
  }
  bool Holds(const Buffer& buffer, const std::vector<std::byte>& expected) const;

  const int32_t ranks_;
  const CallSpec spec_;
  const int64_t misaligned_;
  const bool in_place_;
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;  // empty: in place
  std::vector<std::byte> expected_;
};

}  // namespace lockstep::gpu
