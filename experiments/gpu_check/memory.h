// memory.h: the buffers of a check: one allocation on a device, cut into an input and an output for
// each rank. Values are small integers, whose sums are exact in every dtype, so that results are
// compared bit for bit. Errors: allreduce/cuda/device.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "allreduce/cuda/arena.h"
#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {

// Bytes of one rank's input, and of the result.
std::vector<std::byte> InputOf(const CallSpec& call, int32_t rank, int32_t ranks);
std::vector<std::byte> ResultOf(const CallSpec& call, int32_t ranks);

class CheckMemory {
 public:
  // Room for `bytes` of each rank on `devices` [rank], and for 64 more.
  static Answer Make(Runtime* runtime, const std::vector<int>& devices, int64_t bytes,
                     std::unique_ptr<CheckMemory>* made);
  ~CheckMemory();
  CheckMemory(const CheckMemory&) = delete;
  CheckMemory& operator=(const CheckMemory&) = delete;

  // `misaligned` bytes behind an address that is a multiple of 256; in place: input and output are
  // one.
  std::vector<const std::byte*> Inputs(int64_t misaligned) const;
  std::vector<std::byte*> Outputs(int64_t misaligned, bool in_place) const;

  // Fills inputs, and poisons outputs with bytes of 0xff.
  Answer Fill(const CallSpec& call, int64_t misaligned);
  // Are all outputs right, and the bytes beside them still poison? "" or what is wrong.
  Answer Compare(const CallSpec& call, int64_t misaligned, bool in_place, std::string* wrong) const;

 private:
  explicit CheckMemory(Runtime* runtime) : runtime_(*runtime) {}
  struct Room {
    int device = 0;
    void* stream = nullptr;
    std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  // Waits for it.
  Answer Copy(const Room& room, std::byte* target, const std::byte* source, size_t bytes) const;

  Runtime& runtime_;
  std::vector<Room> rooms_;  // [rank]
  int64_t bytes_ = 0;
};

}  // namespace lockstep::gpu
