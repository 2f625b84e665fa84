// shm_layout.h: what stands where in the memory that a rank shares: its bell, the rings of all its
// incoming connections, then the window's first area (shared_window.h). A function of the group's
// shape alone, so that every rank finds the others' parts. Units: bytes. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "allreduce/transport/shared_window.h"
#include "allreduce/transport/shm_memory.h"
#include "allreduce/transport/shm_ring.h"

namespace lockstep {

struct ShmLayout {
  int world_size = 1;
  int channels = 1;

  static constexpr int64_t kBellBytes = 4096;  // a page, so that the rings are aligned
  // All rings of a rank together, so that many ranks and channels do not cost memory by the square;
  // one ring at most what the nearest caches of two cores hold, at least some messages.
  static constexpr int64_t kRingsBytes = int64_t{8} << 20;
  static constexpr int64_t kRingBytesMin = int64_t{16} << 10;
  static constexpr int64_t kRingBytesMax = int64_t{256} << 10;

  int64_t Rings() const { return int64_t{world_size - 1} * channels; }
  int64_t RingBytes() const {
    const auto share = static_cast<uint64_t>(kRingsBytes / std::max<int64_t>(1, Rings()));
    return std::clamp(static_cast<int64_t>(std::bit_floor(share)), kRingBytesMin, kRingBytesMax);
  }
  // Of the counters, with the ring's bytes behind them. In the memory of `receiver`.
  int64_t RingOffset(int receiver, int sender, int channel) const {
    const int64_t place = sender < receiver ? sender : sender - 1;
    const auto each = static_cast<int64_t>(sizeof(ShmRingCounters)) + RingBytes();
    return kBellBytes + (place * channels + channel) * each;
  }
  int64_t WindowOffset() const { return PageAligned(RingOffset(0, world_size, 0)); }
  int64_t TotalBytes() const { return WindowOffset() + kFirstAreaBytes; }
};

}  // namespace lockstep
