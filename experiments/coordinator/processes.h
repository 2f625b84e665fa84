// processes.h: the child processes of one run: started, watched, stopped; none outlives the run.
// Each child has its own process group, so that Ctrl-C reaches the launcher alone and the launcher
// stops them in order; if the launcher dies, the kernel sends each child SIGTERM. Threads: all
// calls from one thread that lives as long as the children (PR_SET_PDEATHSIG is per thread).
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/coordinator/membership.h"

namespace lockstep {

class Processes {
 public:
  Processes() = default;
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // `command[0]` is the program's path; standard output and error go to `log_path`;
  // `environment` ("NAME=value") is added to this process's own.
  absl::Status Spawn(const MemberId& member, const std::vector<std::string>& command,
                     const std::vector<std::string>& environment, const std::string& log_path);
  // Those that ended since the last call. Never waits.
  std::vector<MemberExit> Reap();
  void SignalAll(int signal) const;
  // Sends `signal` to those that `chosen` picks.
  void Signal(int signal,
              const std::function<bool(const MemberId& member, pid_t pid)>& chosen) const;
  bool empty() const { return running_.empty(); }
  std::string Names() const;

 private:
  struct Child {
    MemberId member;
    std::string log_path;
  };
  std::map<pid_t, Child> running_;
};

}  // namespace lockstep
