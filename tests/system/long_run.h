// long_run.h: a comparison that would train for ever, started in the background and observed
// through its record files, and what is left of it when it is over. Threads: one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/record.pb.h"
#include "tests/system/command.h"

namespace lockstep {

class LongRun {
 public:
  // A variant of the quickstart. `more`: more arguments.
  explicit LongRun(const std::string& variant, std::vector<std::string> more = {})
      : LongRun("", variant, std::move(more)) {}
  // A variant of the spec of this text; empty: the quickstart.
  LongRun(const std::string& spec, const std::string& variant, std::vector<std::string> more);

  // Waits until worker 0 has trained 5 steps.
  bool Trains() const;
  // -1: not yet.
  pid_t Pid(const std::string& role, int index) const;
  int Steps(const std::string& role, int index) const;
  // The last step that the member's own record shows.
  int64_t LastStep(const std::string& role, int index) const;
  std::vector<pid_t> Pids(int servers) const;
  // That they, or the launcher, listen on. There is always one: the coordinator's.
  std::vector<uint16_t> Ports(int servers) const;
  RunFile ReadRun() const;
  Subprocess& command() { return command_; }

 private:
  std::vector<std::string> Arguments(const std::string& spec, const std::string& variant,
                                     const std::vector<std::string>& more) const;

  const TemporaryDir dir_;
  const std::string variant_;
  const std::string records_;
  Subprocess command_;
};

// A zombie is dead: an orphan stays one where process 1 reaps nobody.
bool Alive(pid_t pid);
void ExpectGone(const std::vector<pid_t>& pids);
// That these processes listen on.
std::vector<uint16_t> ListeningPorts(const std::vector<pid_t>& pids);
// They can be bound again.
void ExpectFree(const std::vector<uint16_t>& ports);

}  // namespace lockstep
