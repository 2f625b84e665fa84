#include "base/member/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep {

SignalWatch::SignalWatch(Abort* abort) : abort_(abort), stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // ignored by a parent, it would hide how children end
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGTERM);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&watched, SIGHUP);  // nohup asked us to stay
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &watched, nullptr), 0);
  signal_fd_ = signalfd(-1, &watched, SFD_CLOEXEC);
  CHECK(signal_fd_ >= 0 && stop_fd_ >= 0);
  thread_ = std::thread([this] { Watch(); });
}

SignalWatch::~SignalWatch() {
  const uint64_t one = 1;
  CHECK_EQ(write(stop_fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void SignalWatch::Watch() {
  std::array<pollfd, 2> fds = {{{signal_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}}};
  while (true) {
    // No deadline: the destructor writes stop_fd_.
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) continue;
    int none = 0;
    received_.compare_exchange_strong(none, static_cast<int>(info.ssi_signo));
    abort_->Request(absl::CancelledError(
        absl::StrCat("interrupted by SIG", sigabbrev_np(static_cast<int>(info.ssi_signo)))));
  }
}

}  // namespace lockstep
