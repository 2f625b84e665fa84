// peer_memory.h: one piece of memory for each rank, of the same size, filled with zeros, that every
// rank's device can reach: ranks of one device; one device a rank in one process (peer access); one
// process a rank (cudaIpc). A kernel sees addresses alone. One allocation a rank, because a handle
// to another process names a whole allocation. Nobody hears when another process has closed such a
// handle, and memory must not be freed before: so it stays until this process ends, and where all
// ranks have said that they are idle, the next memory of its size takes it over. Threads: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "allreduce/cuda/device.h"
#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {

class PeerMemory {
 public:
  // `runtime` must outlive the memory, here and below.
  static Answer OnOneDevice(Runtime* runtime, int device, int ranks, int64_t bytes,
                            std::unique_ptr<PeerMemory>* made);
  // devices [rank]; kNoPeerAccess names two that can't reach each other.
  static Answer OnDevices(Runtime* runtime, std::span<const int> devices, int64_t bytes,
                          std::unique_ptr<PeerMemory>* made);
  // This process is `rank` of `ranks`: its own memory, which others open by `handle`. Theirs comes
  // with OpenPeers; until then it may not be used.
  struct Place {
    int rank = 0;
    int ranks = 1;
    int device = 0;
  };
  static Answer OfProcess(Runtime* runtime, const Place& place, int64_t bytes,
                          std::unique_ptr<PeerMemory>* made, std::string* handle);
  // handles [rank]
  Answer OpenPeers(std::span<const std::string> handles);
  // All ranks have said that they use it no more.
  void NobodyUsesIt() { idle_ = true; }

  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  Runtime* runtime() const { return &runtime_; }
  int ranks() const { return static_cast<int>(arenas_.size()); }
  // [rank]: good on every device of this process.
  const std::vector<std::byte*>& arenas() const { return arenas_; }
  // The device of a rank of this process; kElsewhere: of another one.
  static constexpr int kElsewhere = -1;
  int device_of(int rank) const { return devices_[static_cast<size_t>(rank)]; }
  bool one_device() const { return one_device_; }

 private:
  PeerMemory(Runtime* runtime, int ranks, bool one_device);
  Answer Allocate(int rank, int device, int64_t bytes);
  void Release(int device, std::byte* memory);
  int OwnDevice() const;  // of a process with one rank

  Runtime& runtime_;
  std::vector<std::byte*> arenas_;  // null: not made yet
  std::vector<int> devices_;
  const bool one_device_;
  int64_t named_bytes_ = 0;  // of memory that other processes may have open; 0: none has
  bool idle_ = false;
};

// Zeroes memory on a stream of its own. kDevice: it takes longer than that; the memory must then
// be kept.
Answer ZeroWithin(Runtime* runtime, int device, std::span<std::byte> memory,
                  std::chrono::milliseconds limit);

}  // namespace lockstep::gpu
