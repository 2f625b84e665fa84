#include "experiments/bench/line_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

absl::Status AddressOf(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof(address->sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path too long: ", path));
  }
  std::copy(path.begin(), path.end(), address->sun_path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> ListenAt(const std::string& path) {
  sockaddr_un address;
  RETURN_IF_ERROR(AddressOf(path, &address));
  constexpr int kBacklog = 128;
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, absl::StrCat("listen at ", path));
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& path) {
  sockaddr_un address;
  RETURN_IF_ERROR(AddressOf(path, &address));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, absl::StrCat("connect to ", path));
  }
  return fd;
}

absl::Status LineChannel::Wait(int16_t events, int64_t deadline_ns) {
  RETURN_IF_ERROR(abort_.status());
  const int64_t left_ns = deadline_ns == kNoDeadline ? 0 : deadline_ns - clock_.NowNs();
  if (deadline_ns != kNoDeadline && left_ns <= 0) {
    return absl::DeadlineExceededError("no answer in time");
  }
  std::array<pollfd, 2> fds = {{{abort_.fd(), POLLIN, 0}, {fd_.get(), events, 0}}};
  const timespec left{left_ns / kNsPerSecond, left_ns % kNsPerSecond};
  const timespec* const timeout = deadline_ns == kNoDeadline ? nullptr : &left;
  if (ppoll(fds.data(), fds.size(), timeout, nullptr) < 0 && errno != EINTR) {
    return ErrnoStatus(errno, "poll");
  }
  return abort_.status();
}

absl::StatusOr<std::string> LineChannel::Read(int64_t deadline_ns) {
  while (true) {
    const size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > kLineBytesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a line of more than ", kLineBytesMax, " bytes"));
    }
    std::array<char, 4096> bytes{};
    const ssize_t got = recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      buffer_.append(bytes.data(), static_cast<size_t>(got));
      continue;
    }
    if (got == 0) return absl::UnavailableError("the other end closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return ErrnoStatus(errno, "receive");
    RETURN_IF_ERROR(Wait(POLLIN, deadline_ns));
  }
}

absl::Status LineChannel::Write(const std::string& line, int64_t deadline_ns) {
  std::string left = absl::StrCat(line, "\n");
  while (!left.empty()) {
    const ssize_t sent = send(fd_.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      left.erase(0, static_cast<size_t>(sent));
      continue;
    }
    if (errno == EPIPE || errno == ECONNRESET) {
      return absl::UnavailableError("the other end closed the connection");
    }
    if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
      return ErrnoStatus(errno, "send");
    }
    RETURN_IF_ERROR(Wait(POLLOUT, deadline_ns));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
