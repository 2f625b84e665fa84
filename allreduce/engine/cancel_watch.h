// cancel_watch.h: a thread that ends a library's blocking call when the process is to stop or the
// call's deadline has passed, because such a call looks at neither. Sleeps in poll; looks up every
// kLookMs. Threads: Begin and End from that of the calls; `cancel` runs on the watch's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/abort.h"
#include "base/clock.h"
#include "base/socket.h"

namespace lockstep {

class CancelWatch {
 public:
  static constexpr int kLookMs = 50;

  // Both references must outlive the watch.
  CancelWatch(const Abort& abort, const Clock& clock, std::function<void()> cancel);
  ~CancelWatch();
  CancelWatch(const CancelWatch&) = delete;
  CancelWatch& operator=(const CancelWatch&) = delete;

  void Begin(int64_t deadline_ns) { deadline_ns_ = deadline_ns; }
  void End() { deadline_ns_ = kIdle; }

 private:
  static constexpr int64_t kIdle = INT64_MAX;
  void Watch();

  const Abort& abort_;
  const Clock& clock_;
  const std::function<void()> cancel_;
  const UniqueFd stop_;
  std::atomic<int64_t> deadline_ns_ = kIdle;
  std::thread thread_;
};

}  // namespace lockstep
