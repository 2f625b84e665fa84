#include "experiments/bench/sockets.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

struct DirCloser {
  void operator()(DIR* dir) const { closedir(dir); }
};

void Look(int fd, TcpSockets* sockets, std::set<std::string>* congestion) {
  int protocol = 0;
  socklen_t size = sizeof(protocol);
  if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 || protocol != IPPROTO_TCP) {
    return;
  }
  tcp_info info{};
  size = sizeof(info);
  constexpr uint8_t kEstablished = 1;  // TCP_ESTABLISHED of the kernel's own headers
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state != kEstablished) {
    return;
  }
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  size = name.size();
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0) {
    congestion->insert(std::string(name.data(), strnlen(name.data(), name.size())));
  }
  ++sockets->connections;
  sockets->sent_bytes += static_cast<int64_t>(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
}

}  // namespace

TcpSockets LookAtTcpSockets() {
  TcpSockets sockets;
  std::set<std::string> congestion;
  const std::unique_ptr<DIR, DirCloser> dir(opendir("/proc/self/fd"));
  if (dir == nullptr) return sockets;
  while (const dirent* const entry = readdir(dir.get())) {
    char* end = nullptr;
    const auto fd = std::strtol(entry->d_name, &end, 10);
    if (end != entry->d_name && *end == '\0') Look(static_cast<int>(fd), &sockets, &congestion);
  }
  sockets.congestion = absl::StrJoin(congestion, "+");
  return sockets;
}

}  // namespace lockstep
