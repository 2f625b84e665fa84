// host_group.h: all ranks of a kernel in this process, for tests: their arenas, their blocks, and
// calls in which every thread of every block is a thread of the host. A rank's blocks are in one
// call at a time, as on a stream; ranks are in step only as far as the kernel makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "allreduce/cuda/arena.h"

namespace lockstep::gpu {

// One call: addresses [rank].
struct HostCall {
  CallSpec spec;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
};

// Bugs that a thread sanitizer must find: no barrier before a flag is published, flags published
// without release, senders that never wait for a free slot.
enum class Planted : uint8_t { kNone, kNoBarrier, kRelaxedPublish, kNoCredit };

struct HostOptions {
  int threads_per_block = 1;
  int64_t timeout_ms = 240'000;
  std::vector<int32_t> missing = {};  // ranks that do not come
  Planted planted = Planted::kNone;
};

// What a block says of a run of calls.
struct BlockRecord {
  int32_t rank = 0;
  int32_t index = 0;  // among its rank's
  Report report;      // of its last call
  int64_t bytes = 0;  // loaded and stored
  std::vector<Noted> notes = {};
};

// What one thread of a launch does.
class HostTeam;
void RunHostKernel(Kernel kernel, const CallSpec& spec, HostTeam* team, const Call& call,
                   const Block& block);

class HostGroup {
 public:
  explicit HostGroup(const KernelSpec& spec);

  // [block], ranks in order. After a call that failed the group may not be used again.
  std::vector<BlockRecord> Run(const std::vector<HostCall>& calls, const HostOptions& options);

  const KernelSpec& spec() const { return spec_; }

 private:
  void PlantEndlessCredit();

  struct alignas(kLineBytes) Line {
    std::byte bytes[kLineBytes] = {};
  };

  const KernelSpec spec_;
  std::vector<std::vector<Line>> arenas_;  // [rank]
  std::vector<std::vector<Block>> blocks_;
  std::vector<std::vector<uint64_t>> reports_;
  uint64_t stop_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace lockstep::gpu
