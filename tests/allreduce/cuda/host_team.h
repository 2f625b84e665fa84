// host_team.h: the threads of one kernel block as threads of the host: the Team of
// allreduce/cuda/wait.h under which the kernels run in tests, where a thread sanitizer sees their
// protocol. Counts the bytes it loads and stores, packets included, and keeps what is noted.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "allreduce/cuda/call.h"
#include "tests/allreduce/cuda/host_group.h"

namespace lockstep::gpu {

// What the threads of a block share.
struct HostBlock {
  HostBlock(int thread_count, Planted planted_bug)
      : threads(thread_count), planted(planted_bug), barrier(thread_count) {}
  const int threads;
  const Planted planted;
  std::barrier<> barrier;
  std::array<std::atomic<bool>, 3> votes{};  // of this Any, the next and the one after it
};

class HostTeam {
 public:
  static constexpr bool kNotes = true;

  HostTeam(HostBlock* block, int rank) : block_(*block), rank_(rank) {}

  int rank() const { return rank_; }
  int size() const { return block_.threads; }
  void Sync() {
    if (block_.planted != Planted::kNoBarrier) Arrive();
  }
  bool Any(bool mine) {
    const size_t vote = any_++ % 3;
    if (mine) block_.votes[vote].store(true, std::memory_order_relaxed);
    Arrive();
    const bool any = block_.votes[vote].load(std::memory_order_relaxed);
    // Used again in two calls from now, which no thread begins before all have read it here.
    if (rank_ == 0) block_.votes[(vote + 2) % 3].store(false, std::memory_order_relaxed);
    return any;
  }
  void Pause(uint32_t /*spins*/) { std::this_thread::yield(); }
  int64_t NowNs() const {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  uint64_t LoadAcquire(const uint64_t* flag) const {
    return Ref(flag).load(std::memory_order_acquire);
  }
  void StoreRelease(uint64_t* flag, uint64_t value) {
    Ref(flag).store(value, block_.planted == Planted::kRelaxedPublish ? std::memory_order_relaxed
                                                                      : std::memory_order_release);
  }
  bool Stopped(const uint64_t* stop) const { return LoadAcquire(stop) != 0; }
  void Stop(uint64_t* stop) { StoreRelease(stop, 1); }
  uint64_t LoadRelaxed(const uint64_t* word) const {
    return Ref(word).load(std::memory_order_relaxed);
  }
  void StoreRelaxed(uint64_t* word, uint64_t value) {
    Ref(word).store(value, std::memory_order_relaxed);
  }
  void Put(uint64_t* at, uint32_t flag, uint32_t data) {
    StoreRelaxed(at, static_cast<uint64_t>(flag) << 32 | data);
    bytes_ += static_cast<int64_t>(sizeof(uint64_t));
  }
  bool Take(const uint64_t* at, uint32_t flag, uint32_t* data) {
    const uint64_t word = LoadRelaxed(at);
    if (static_cast<uint32_t>(word >> 32) != flag) return false;
    *data = static_cast<uint32_t>(word);
    bytes_ += static_cast<int64_t>(sizeof(uint64_t));
    return true;
  }

  template <typename T>
  T Load(const std::byte* address) {
    bytes_ += static_cast<int64_t>(sizeof(T));
    T value;
    std::memcpy(&value, address, sizeof(T));
    return value;
  }
  template <typename T>
  void Store(std::byte* address, const T& value) {
    bytes_ += static_cast<int64_t>(sizeof(T));
    std::memcpy(address, &value, sizeof(T));
  }

  void Note(const Noted& noted) {
    if (rank_ == 0) notes_.push_back(noted);
  }

  int64_t bytes() const { return bytes_; }
  const std::vector<Noted>& notes() const { return notes_; }

 private:
  void Arrive() {
    if (block_.threads > 1) block_.barrier.arrive_and_wait();
  }
  static std::atomic_ref<uint64_t> Ref(const uint64_t* word) {
    return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word));  // C++20: none to a const one
  }

  HostBlock& block_;
  const int rank_;
  size_t any_ = 0;
  int64_t bytes_ = 0;
  std::vector<Noted> notes_;
};

}  // namespace lockstep::gpu
