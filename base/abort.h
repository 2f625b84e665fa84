// abort.h: one switch a process that every wait looks at, so that stopping never waits for a
// deadline. The first request wins and stays. Thread-safe; Request may be called from any thread.
#pragma once

#include "absl/status/status.h"
#include "base/sync.h"

namespace lockstep {

class Abort {
 public:
  Abort();
  ~Abort();
  Abort(const Abort&) = delete;
  Abort& operator=(const Abort&) = delete;

  // REQUIRES: !reason.ok().
  void Request(const absl::Status& reason);
  // OK until requested, then the reason.
  absl::Status status() const;
  // Readable (POLLIN) once requested: put it into every poll set.
  int fd() const { return fd_; }

 private:
  const int fd_;
  mutable Mutex mu_;
  absl::Status reason_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lockstep
