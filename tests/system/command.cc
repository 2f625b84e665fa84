#include "tests/system/command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "tests/support/places.h"

namespace lockstep {
namespace {

std::string TemporaryFile() {
  std::string path = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
  const int fd = mkstemp(path.data());
  CHECK(fd >= 0);
  close(fd);
  return path;
}

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string ReadAndRemove(const std::string& path) {
  std::string text = Read(path);
  std::filesystem::remove(path);
  return text;
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& argv)
    : out_path_(TemporaryFile()), err_path_(TemporaryFile()) {
  std::vector<char*> pointers;
  for (const std::string& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const int out = open(out_path_.c_str(), O_WRONLY | O_CLOEXEC);
  const int err = open(err_path_.c_str(), O_WRONLY | O_CLOEXEC);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(out >= 0 && err >= 0 && null >= 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    setpgid(0, 0);
    std::signal(SIGHUP, SIG_DFL);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  close(out);
  close(err);
  close(null);
}

Subprocess::~Subprocess() {
  if (!over_) Wait(0);
}

std::string Subprocess::ErrSoFar() const { return Read(err_path_); }

void Subprocess::Signal(int signal) const { kill(pid_, signal); }

CommandResult Subprocess::Wait(double timeout_s) {
  const MonotonicClock clock;
  const int64_t start_ns = clock.NowNs();
  CommandResult result;
  int status = 0;
  const auto ended = [&] { return waitpid(pid_, &status, WNOHANG) == pid_; };
  if (!Eventually(ended, timeout_s)) {
    result.timed_out = true;
    kill(-pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  over_ = true;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.elapsed_s =
      static_cast<double>(clock.NowNs() - start_ns) / static_cast<double>(kNsPerSecond);
  result.out = ReadAndRemove(out_path_);
  result.err = ReadAndRemove(err_path_);
  return result;
}

CommandResult RunCommand(const std::vector<std::string>& argv, double timeout_s) {
  return Subprocess(argv).Wait(timeout_s);
}

std::vector<std::string> CompareCommand(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {BinDir() + "/lockstep", "compare"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

TemporaryDir::TemporaryDir() {
  path_ = (std::filesystem::temp_directory_path() / "lockstep-dir-XXXXXX").string();
  CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryDir::~TemporaryDir() { std::filesystem::remove_all(path_); }

}  // namespace lockstep
