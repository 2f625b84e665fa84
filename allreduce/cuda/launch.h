// launch.h: one kernel's group of ranks as far as they are of this process: their blocks, and calls
// in which each device runs the blocks of its ranks in one cooperative launch, so that all are
// resident at once or the launch is refused. Between the launches of one call nothing waits.
// After a failure the group is dead: flags are out of step; make another with new memory. A kernel
// that does not end even when it is asked to keeps all its memory, until the process ends.
// Errors: device.h; kRankFailed says who did not answer (diagnosis.h). Threads: one; Stop from any.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allreduce/cuda/arena.h"
#include "allreduce/cuda/device.h"
#include "allreduce/cuda/peer_memory.h"

namespace lockstep::gpu {

struct LaunchShape {
  int threads = 512;  // of a block: a multiple of 32, at most kThreadsMax (kernels.h)
};

class KernelGroup {
 public:
  // `memory` has ArenaBytes(spec) for each rank. Where the blocks are refused, *made holds the
  // memory all the same, and can't be called.
  static Answer Make(const KernelSpec& spec, const LaunchShape& shape,
                     std::unique_ptr<PeerMemory> memory, std::unique_ptr<KernelGroup>* made);
  ~KernelGroup();
  KernelGroup(const KernelGroup&) = delete;
  KernelGroup& operator=(const KernelGroup&) = delete;

  // Enqueues one call on every device. Addresses [rank]: those of this process's ranks, and for
  // kDirect and kPull of all, as this process sees them. They must stay until Wait.
  Answer Launch(const CallSpec& call, std::span<const std::byte* const> inputs,
                std::span<std::byte* const> outputs, int64_t timeout_ms);
  // Is all that was launched through? Then, or at an error, what came of it; never waits.
  Answer Poll(bool* through);
  // Until it is; ends at the last launch's deadline and a grace.
  Answer Wait();
  // Ends every wait of its kernels.
  void Stop();
  // Stops what is under way, and waits for its end. False: it does not come, within a grace.
  bool End();
  // All ranks have said that they are idle: peer_memory.h.
  void NobodyUsesMemory() { memory_->NobodyUsesIt(); }

  // Devices in use, and the cudaStream_t of each, for events around launches.
  int devices() const { return static_cast<int>(parts_.size()); }
  void* stream(int part) const { return parts_[static_cast<size_t>(part)].stream; }
  int device(int part) const { return parts_[static_cast<size_t>(part)].device; }

 private:
  // One device's share.
  struct Part {
    int device = 0;
    int blocks = 0;
    Block* device_blocks = nullptr;
    void* stream = nullptr;
  };

  KernelGroup(const KernelSpec& spec, const LaunchShape& shape, std::unique_ptr<PeerMemory> memory);
  Answer MakeHostWords();
  uint64_t* ReportsOf(int rank) const;  // one word a block
  Answer MakePart(int device, const std::vector<int>& ranks);
  KernelLaunch LaunchOf(const Part& part, const CallSpec& call) const;
  Answer CheckFits(const CallSpec& call);
  Answer CheckAddresses(const CallSpec& call, std::span<const std::byte* const> inputs,
                        std::span<std::byte* const> outputs) const;
  Answer Diagnosis();
  bool EndsWithin(std::chrono::milliseconds limit);

  const KernelSpec spec_;
  const LaunchShape shape_;
  std::unique_ptr<PeerMemory> memory_;
  Runtime& runtime_;
  std::vector<Part> parts_;
  std::vector<int> ranks_;                     // of this process
  uint64_t* host_words_ = nullptr;             // the stop word's line, then each rank's reports
  std::set<std::pair<Dtype, ReduceOp>> fits_;  // that have been asked for
  uint32_t epoch_ = 0;
  int64_t timeout_ms_ = 0;  // of the last launch
  bool in_flight_ = false;
  Answer failure_;  // the first
};

}  // namespace lockstep::gpu
