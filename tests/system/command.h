// command.h: runs the built programs as a user would: own process group, captured output, a
// deadline. Threads: one.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace lockstep {

struct CommandResult {
  int exit_code = -1;  // 128 + signal when killed
  bool timed_out = false;
  std::string out;
  std::string err;
  double elapsed_s = 0;
};

// A program in the background; killed with its group when the object goes.
class Subprocess {
 public:
  explicit Subprocess(const std::vector<std::string>& argv);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  std::string ErrSoFar() const;
  // Waits for the end; after `timeout_s` kills the group and says so.
  CommandResult Wait(double timeout_s);

 private:
  pid_t pid_ = -1;
  std::string out_path_;
  std::string err_path_;
  bool over_ = false;
};

CommandResult RunCommand(const std::vector<std::string>& argv, double timeout_s);

// `lockstep compare` of this build.
std::vector<std::string> CompareCommand(const std::vector<std::string>& arguments);

// A fresh folder, removed with the object.
class TemporaryDir {
 public:
  TemporaryDir();
  ~TemporaryDir();
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// True once `condition` holds; false after `timeout_s`.
// For what other processes do: looks every 10 ms.
template <typename Condition>
bool Eventually(const Condition& condition, double timeout_s) {
  const MonotonicClock clock;
  const int64_t deadline_ns = clock.NowNs() + static_cast<int64_t>(timeout_s * 1e9);
  while (!condition()) {
    if (clock.NowNs() > deadline_ns) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

}  // namespace lockstep
