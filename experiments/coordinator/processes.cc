#include "experiments/coordinator/processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/socket.h"
#include "base/status.h"

namespace lockstep {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: async-signal-safe calls only. Reports errno through
// `report`.
[[noreturn]] void BecomeChild(char* const* argv, char* const* envp, int log, int report,
                              pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  const bool ready = sigprocmask(SIG_SETMASK, &none, nullptr) == 0 && setpgid(0, 0) == 0 &&
                     prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && dup2(log, STDOUT_FILENO) >= 0 &&
                     dup2(log, STDERR_FILENO) >= 0;
  if (ready && getppid() == parent) execve(argv[0], argv, envp);
  const int error = errno;
  const ssize_t written = write(report, &error, sizeof(error));
  _exit(written == sizeof(error) ? 127 : 126);
}

std::string Describe(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was killed by SIG", sigabbrev_np(WTERMSIG(status)));
  return absl::StrCat("exited with code ", WEXITSTATUS(status), " before its work was done");
}

}  // namespace

Processes::~Processes() {
  SignalAll(SIGKILL);
  for (const auto& [pid, child] : running_) waitpid(pid, nullptr, 0);  // returns at once: killed
}

absl::Status Processes::Spawn(const MemberId& member, const std::vector<std::string>& command,
                              const std::vector<std::string>& environment,
                              const std::string& log_path) {
  constexpr int kMode = 0644;
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!log.valid()) return ErrnoStatus(errno, absl::StrCat("cannot create ", log_path));
  std::vector<std::string> all_environment = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) all_environment.emplace_back(*entry);
  const std::vector<char*> argv = Pointers(command);
  const std::vector<char*> envp = Pointers(all_environment);
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  const UniqueFd read_end(pipe_fds[0]);
  const pid_t parent = getpid();
  pid_t pid = 0;
  {
    const UniqueFd write_end(pipe_fds[1]);
    pid = fork();
    if (pid < 0) return ErrnoStatus(errno, absl::StrCat("cannot start ", command[0]));
    if (pid == 0) BecomeChild(argv.data(), envp.data(), log.get(), write_end.get(), parent);
  }
  int error = 0;
  if (read(read_end.get(), &error, sizeof(error)) == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    return absl::FailedPreconditionError(absl::StrCat("cannot start ", command[0], " for ",
                                                      member.ToString(), ": ", strerror(error)));
  }
  running_[pid] = {member, log_path};
  return absl::OkStatus();
}

std::vector<MemberExit> Processes::Reap() {
  std::vector<MemberExit> exits;
  for (auto process = running_.begin(); process != running_.end();) {
    int status = 0;
    const pid_t ended = waitpid(process->first, &status, WNOHANG);
    if (ended == 0) {
      ++process;
      continue;
    }
    const bool known = ended == process->first;  // else somebody else has taken its status
    exits.push_back({.member = process->second.member,
                     .pid = process->first,
                     .clean = known && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                     .how = known ? Describe(status) : "ended, its status is unknown",
                     .log_path = process->second.log_path});
    process = running_.erase(process);
  }
  return exits;
}

void Processes::SignalAll(int signal) const {
  Signal(signal, [](const MemberId& /*member*/, pid_t /*pid*/) { return true; });
}

void Processes::Signal(int signal,
                       const std::function<bool(const MemberId& member, pid_t pid)>& chosen) const {
  for (const auto& [pid, child] : running_) {
    if (chosen(child.member, pid)) kill(pid, signal);
  }
}

std::string Processes::Names() const {
  std::vector<std::string> names;
  for (const auto& [pid, child] : running_) names.push_back(child.member.ToString());
  return absl::StrJoin(names, ", ");
}

}  // namespace lockstep
