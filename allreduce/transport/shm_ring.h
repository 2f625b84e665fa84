// shm_ring.h: a bounded stream of bytes in shared memory, from one rank to another: the sender
// copies in, the receiver copies out, so bytes are touched once on each side and stay in cache.
// `written` and `read` count bytes since the start and wrap never; each is stored by one side
// alone, in a cache line of its own. Sequentially consistent stores, because who stores then looks
// whether the other side sleeps (shm_bell.h). Never waits. Threads: one at each end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lockstep {

inline constexpr size_t kCacheLineBytes = 64;

struct ShmRingCounters {
  alignas(kCacheLineBytes) std::atomic<uint64_t> written{0};
  alignas(kCacheLineBytes) std::atomic<uint64_t> read{0};
};
static_assert(sizeof(ShmRingCounters) == 2 * kCacheLineBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free, "or it would hold a lock of one process");

// The sending end. Put copies as much as fits; Publish shows it to the other side.
class ShmRingWriter {
 public:
  ShmRingWriter(ShmRingCounters* counters, std::span<std::byte> bytes)
      : counters_(counters), bytes_(bytes) {}

  // How many bytes fit now. More than the ring's size: the other side has broken it.
  size_t Space() const {
    return bytes_.size() - static_cast<size_t>(written_ - counters_->read.load());
  }
  // False: the other side's counter makes no sense.
  bool Sane() const { return Space() <= bytes_.size(); }

  size_t Put(std::span<const std::byte> source) {
    const size_t taken = std::min(source.size(), Space());
    if (taken == 0) return 0;  // memcpy wants pointers even for nothing
    const size_t begin = static_cast<size_t>(written_ % bytes_.size());
    const size_t to_end = std::min(taken, bytes_.size() - begin);
    std::memcpy(bytes_.data() + begin, source.data(), to_end);
    std::memcpy(bytes_.data(), source.data() + to_end, taken - to_end);
    written_ += taken;
    return taken;
  }
  void Publish() { counters_->written.store(written_); }

 private:
  ShmRingCounters* counters_;
  std::span<std::byte> bytes_;
  uint64_t written_ = 0;
};

// The receiving end. Take copies what is there; Release gives its room back.
class ShmRingReader {
 public:
  ShmRingReader(ShmRingCounters* counters, std::span<const std::byte> bytes)
      : counters_(counters), bytes_(bytes) {}

  size_t Available() const { return static_cast<size_t>(counters_->written.load() - read_); }
  bool Sane() const { return Available() <= bytes_.size(); }

  size_t Take(std::span<std::byte> target) {
    const size_t taken = std::min(target.size(), Available());
    if (taken == 0) return 0;
    const size_t begin = static_cast<size_t>(read_ % bytes_.size());
    const size_t to_end = std::min(taken, bytes_.size() - begin);
    std::memcpy(target.data(), bytes_.data() + begin, to_end);
    std::memcpy(target.data() + to_end, bytes_.data(), taken - to_end);
    read_ += taken;
    return taken;
  }
  void Release() { counters_->read.store(read_); }

 private:
  ShmRingCounters* counters_;
  std::span<const std::byte> bytes_;
  uint64_t read_ = 0;
};

}  // namespace lockstep
