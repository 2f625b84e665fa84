// clock.h: time comes in by constructor, so that tests and simulators own it.
// Times are int64 nanoseconds on one monotonic clock; durations carry their unit in the name.
#pragma once

#include <cstdint>

namespace lockstep {

inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;
};

// CLOCK_MONOTONIC: shared by all processes of one host. Thread-safe.
class MonotonicClock final : public Clock {
 public:
  int64_t NowNs() const override;
};

// Moves only when told. For tests and simulators; one thread.
class ManualClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceMs(int64_t ms) { now_ns_ += ms * kNsPerMs; }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace lockstep
