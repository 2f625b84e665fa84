#include "allreduce/engine/cancel_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <utility>

#include "base/check.h"

namespace lockstep {

CancelWatch::CancelWatch(const Abort& abort, const Clock& clock, std::function<void()> cancel)
    : abort_(abort),
      clock_(clock),
      cancel_(std::move(cancel)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Watch(); }) {
  CHECK(stop_.valid());
}

CancelWatch::~CancelWatch() {
  CHECK_EQ(eventfd_write(stop_.get(), 1), 0);
  thread_.join();
}

void CancelWatch::Watch() {
  std::array<pollfd, 2> fds = {{{stop_.get(), POLLIN, 0}, {abort_.fd(), POLLIN, 0}}};
  while (true) {
    poll(fds.data(), fds.size(), kLookMs);
    if (fds[0].revents != 0) return;
    if (abort_.status().ok() && clock_.NowNs() < deadline_ns_) continue;
    cancel_();  // the group is dead: once is enough
    poll(fds.data(), 1, -1);
    return;
  }
}

}  // namespace lockstep
