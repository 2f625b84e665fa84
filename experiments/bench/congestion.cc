#include "experiments/bench/congestion.h"

#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kAvailable[] = "/proc/sys/net/ipv4/tcp_available_congestion_control";

absl::Status CheckKnown(const std::string& name) {
  std::ifstream file(kAvailable);
  std::set<std::string> known;
  for (std::string word; file >> word;) known.insert(word);
  if (known.empty() || known.contains(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--congestion: '", name, "' is none of ",
                                                 absl::StrJoin(known, ", "),
                                                 ", which this kernel has"));
}

absl::Status WriteTo(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (file.good()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--congestion: cannot write ", path));
}

absl::Status EnterNamespace() {
  if (unshare(CLONE_NEWNET) == 0) return absl::OkStatus();
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--congestion needs a network namespace, which this system refuses (", strerror(errno),
        "); run as root, or without the option under the system's own setting"));
  }
  RETURN_IF_ERROR(WriteTo("/proc/self/setgroups", "deny"));
  RETURN_IF_ERROR(WriteTo("/proc/self/uid_map", absl::StrCat("0 ", uid, " 1\n")));
  return WriteTo("/proc/self/gid_map", absl::StrCat("0 ", gid, " 1\n"));
}

absl::Status RunIp(const std::string& arguments) {
  std::vector<std::string> words = absl::StrSplit(absl::StrCat("ip ", arguments), ' ');
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, "ip", nullptr, nullptr, argv.data(), environ);
  if (error != 0) {
    return absl::FailedPreconditionError(absl::StrCat("--congestion: cannot run ip (",
                                                      strerror(error),
                                                      "); install the Debian package iproute2"));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--congestion: `ip ", arguments, "` failed"));
}

}  // namespace

absl::Status UseCongestionControl(const std::string& name) {
  RETURN_IF_ERROR(CheckKnown(name));
  RETURN_IF_ERROR(EnterNamespace());
  RETURN_IF_ERROR(RunIp("link set lo up"));
  for (const char* const destination : {"127.0.0.0/8", "127.0.0.1"}) {
    RETURN_IF_ERROR(RunIp(absl::StrCat("route change local ", destination,
                                       " dev lo proto kernel scope host src 127.0.0.1 table local "
                                       "congctl ",
                                       name)));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
