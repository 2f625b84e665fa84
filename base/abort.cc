#include "base/abort.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace lockstep {

Abort::Abort() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK_GE(fd_, 0) << "eventfd"; }

Abort::~Abort() { close(fd_); }

void Abort::Request(const absl::Status& reason) {
  CHECK(!reason.ok());
  MutexLock lock(&mu_);
  if (!reason_.ok()) return;
  reason_ = reason;
  const uint64_t one = 1;
  CHECK_EQ(write(fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

absl::Status Abort::status() const {
  MutexLock lock(&mu_);
  return reason_;
}

}  // namespace lockstep
