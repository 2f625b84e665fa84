// host_queue.h: a stream of the tests: work runs in order on a thread of its own, as on a GPU, so
// that a missing wait shows. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

class HostQueue {
 public:
  HostQueue() : thread_([this] { Work(); }) {}
  ~HostQueue() {
    Add(nullptr);
    thread_.join();
  }
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  void Add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    added_.notify_one();
  }
  bool Idle() {
    const std::lock_guard lock(mutex_);
    return work_.empty();
  }

 private:
  void Work() {
    while (true) {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [this] { return !work_.empty(); });
      const std::function<void()> work = work_.front();
      lock.unlock();
      if (!work) return;
      work();
      lock.lock();
      work_.pop_front();  // only now: it is busy as long as it works
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
};

}  // namespace lockstep
