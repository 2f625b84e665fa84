// buffer.h: whether a shard may write into a buffer that it had lent out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

// Nobody but `owners` owners on this thread holds it. The last other holder may have let go on
// another thread; its reads come before our writes.
inline bool IsSole(const std::shared_ptr<std::vector<float>>& buffer, int64_t owners = 1) {
  if (buffer.use_count() != owners) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

}  // namespace lockstep
