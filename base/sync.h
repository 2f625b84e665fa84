// sync.h: Mutex with thread-safety annotations and waiting by condition, always with a time limit.
// It is absl::Mutex, except under thread sanitizer: Debian's Abseil is not instrumented and would
// report races that are none, so there it is std::mutex, and Await a condition variable that every
// Unlock notifies.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#ifdef LOCKSTEP_STD_MUTEX
#include <condition_variable>
#include <mutex>
#else
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#endif

namespace lockstep {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

#ifdef LOCKSTEP_STD_MUTEX
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    mu_.unlock();
    changed_.notify_all();
  }
  // Waits until `condition()` is true; false when `timeout_ms` passed first. REQUIRES: locked.
  template <typename Condition>
  bool AwaitFor(const Condition& condition, int64_t timeout_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> lock(mu_, std::adopt_lock);
    const bool met = changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), condition);
    lock.release();
    return met;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
#else
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.Lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.Unlock(); }
  template <typename Condition>
  bool AwaitFor(const Condition& condition, int64_t timeout_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    return mu_.AwaitWithTimeout(absl::Condition(&condition), absl::Milliseconds(timeout_ms));
  }

 private:
  absl::Mutex mu_;
#endif
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }

 private:
  Mutex* const mu_;
};

}  // namespace lockstep
