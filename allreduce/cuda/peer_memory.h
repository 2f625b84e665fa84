// peer_memory.h: one arena for each rank, of the same size, filled with zeros, that every rank's
// device can reach: ranks of one device; one device a rank in one process (peer access); one
// process a rank (cudaIpc). A kernel sees addresses alone. One allocation an arena, because a
// handle to another process names a whole allocation. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "allreduce/cuda/device.h"

namespace lockstep::gpu {

class PeerMemory {
 public:
  // [rank] of all processes, given one's own; all of one size. Empty: failed.
  using Exchange = std::function<std::vector<std::string>(const std::string& own)>;

  static Answer OnOneDevice(int device, int ranks, int64_t bytes,
                            std::unique_ptr<PeerMemory>* made);
  // devices [rank], each its own. kNoPeerAccess names the two that can't.
  static Answer OnDevices(std::span<const int> devices, int64_t bytes,
                          std::unique_ptr<PeerMemory>* made);
  // This process is `rank` of `ranks`. A collective call: every process makes it.
  static Answer OfProcess(int rank, int ranks, int device, int64_t bytes, const Exchange& exchange,
                          std::unique_ptr<PeerMemory>* made);

  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  int ranks() const { return static_cast<int>(arenas_.size()); }
  // [rank]: good on every device of this process.
  const std::vector<std::byte*>& arenas() const { return arenas_; }
  // The device of a rank of this process; kElsewhere: of another one.
  static constexpr int kElsewhere = -1;
  int device_of(int rank) const { return devices_[static_cast<size_t>(rank)]; }
  bool one_device() const { return one_device_; }

 private:
  PeerMemory(int ranks, bool one_device);
  Answer Allocate(int rank, int device, int64_t bytes);
  Answer Open(int rank, const std::string& handle);

  std::vector<std::byte*> arenas_;  // null: not made yet
  std::vector<int> devices_;
  const bool one_device_;
};

}  // namespace lockstep::gpu
