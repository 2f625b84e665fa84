// signals.h: SIGINT, SIGTERM and SIGHUP become an abort request, so that every wait of the process
// ends. Create it in main before any other thread: it blocks them for all of those. SIGPIPE is
// ignored.
#pragma once

#include <atomic>
#include <thread>

#include "base/abort.h"

namespace lockstep {

class SignalWatch {
 public:
  explicit SignalWatch(Abort* abort);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // The first signal received, 0 for none. Exit with 128 + it.
  int received() const { return received_; }

 private:
  void Watch();

  Abort* const abort_;
  int signal_fd_;
  const int stop_fd_;
  std::atomic<int> received_ = 0;
  std::thread thread_;
};

}  // namespace lockstep
