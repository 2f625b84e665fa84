// local_ranks.h: how the ranks of one process find what they share: whoever starts them gives all
// the same object, and each group of theirs has a key in it. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace lockstep::gpu {

class LocalRanks {
 public:
  // Never 0, and never twice.
  uint64_t NewKey() {
    const std::lock_guard lock(mutex_);
    return ++last_key_;
  }

  // What the ranks of this group share: the first that comes makes it, the last that leaves ends
  // it, in whatever order that is.
  template <typename T>
  std::shared_ptr<T> Join(uint64_t key, const std::function<std::shared_ptr<T>()>& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<void>& entry = shared_[key];
    std::shared_ptr<void> shared = entry.lock();
    if (shared == nullptr) {
      shared = make();
      entry = shared;
    }
    return std::static_pointer_cast<T>(shared);
  }

 private:
  std::mutex mutex_;
  uint64_t last_key_ = 0;
  std::map<uint64_t, std::weak_ptr<void>> shared_;  // [key]
};

}  // namespace lockstep::gpu
