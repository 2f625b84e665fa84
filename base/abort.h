// abort.h: one switch a process that every wait looks at, so that stopping never waits for a
// deadline. The first request wins and stays. A part of the process that may end alone, such as one
// group of a run, has a switch of its own below that one. Thread-safe; Request may be called from
// any thread.
#pragma once

#include "absl/status/status.h"
#include "base/sync.h"

namespace lockstep {

class Abort {
 public:
  Abort();
  // Also requested once `parent` is, which must outlive it.
  explicit Abort(const Abort* parent);
  ~Abort();
  Abort(const Abort&) = delete;
  Abort& operator=(const Abort&) = delete;

  // REQUIRES: !reason.ok().
  void Request(const absl::Status& reason);
  // OK until requested, then the reason; the parent's goes first.
  absl::Status status() const;
  // Readable (POLLIN) once requested: put it into every poll set.
  int fd() const { return fd_; }

 private:
  const Abort* const parent_ = nullptr;
  const int event_fd_;
  const int fd_;  // event_fd_, or with a parent an epoll set of both
  mutable Mutex mu_;
  absl::Status reason_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lockstep
