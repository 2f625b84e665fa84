// session.h: a link with its executor, shared by a communicator and all its groups: runs checked
// calls one at a time, and explains a failure. The fingerprint of a call travels in every message's
// header; only after a failure are descriptions exchanged, over the control path. The first failure
// ends the session for good, whichever group it was in: connections are cut in the middle of
// messages. Errors: failure.h; every call after the first failure returns that one. Threads: one at
// a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "allreduce/host/call.h"
#include "allreduce/host/executor.h"
#include "allreduce/host/window.h"
#include "allreduce/transport/link.h"
#include "base/clock.h"
#include "base/limits.h"

namespace lockstep {

class HostSession {
 public:
  // `clock` must outlive the session.
  HostSession(std::unique_ptr<Link> link, const Clock& clock, const Limits& limits);
  ~HostSession();
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;

  using Execute = absl::FunctionRef<absl::Status(const ExecuteCall&)>;

  // Checks the arguments, then runs `execute` with all of an ExecuteCall but its data. `members`:
  // the link's ranks that are part of the call, in the order of the group.
  absl::Status Run(const CallDescription& call, const std::vector<int>& members, Execute execute);

  Link& link() { return *link_; }
  const Link& link() const { return *link_; }
  HostExecutor& executor() { return executor_; }
  // Null where the link has no memory that all ranks map.
  WindowAllReduce* window() { return window_.get(); }
  const Clock& clock() const { return clock_; }
  const Limits& limits() const { return limits_; }

 private:
  ExecuteCall PlanOf(const CallDescription& call, int64_t start_ns) const;
  absl::Status Fail(const CallDescription& call, const std::vector<int>& members, int64_t start_ns,
                    const absl::Status& cause);
  std::vector<int> WaitingFor() const;
  bool IsLost(int peer) const;
  bool SomeMayAnswer(const std::vector<int>& members) const;
  int64_t ElapsedMs(int64_t start_ns) const;

  std::unique_ptr<Link> link_;
  const Clock& clock_;
  const Limits limits_;
  HostExecutor executor_;
  const std::unique_ptr<WindowAllReduce> window_;
  absl::Status dead_;  // the first error, for good
};

}  // namespace lockstep
