#include "base/abort.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace lockstep {

Abort::Abort() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), fd_(event_fd_) {
  CHECK_GE(event_fd_, 0) << "eventfd";
}

Abort::Abort(const Abort* parent)
    : parent_(parent),
      event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      fd_(epoll_create1(EPOLL_CLOEXEC)) {
  CHECK(event_fd_ >= 0 && fd_ >= 0) << "eventfd, epoll";
  for (const int source : {event_fd_, parent->fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    CHECK_EQ(epoll_ctl(fd_, EPOLL_CTL_ADD, source, &event), 0);
  }
}

Abort::~Abort() {
  if (fd_ != event_fd_) close(fd_);
  close(event_fd_);
}

void Abort::Request(const absl::Status& reason) {
  CHECK(!reason.ok());
  MutexLock lock(&mu_);
  if (!reason_.ok()) return;
  reason_ = reason;
  const uint64_t one = 1;
  CHECK_EQ(write(event_fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the chain of parents
absl::Status Abort::status() const {
  if (parent_ != nullptr) {
    if (absl::Status above = parent_->status(); !above.ok()) return above;
  }
  MutexLock lock(&mu_);
  return reason_;
}

}  // namespace lockstep
