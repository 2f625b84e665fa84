// socket.h: host:port in text, and listening sockets that are bound before anybody hears of them.
// Errors: InvalidArgument (malformed endpoint), NotFound (host does not resolve),
// FailedPrecondition (not an address of this host), ResourceExhausted (port taken). Each names host
// and port. IPv6 is written in brackets: [::1]:7000. Thread-safe: no shared state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace lockstep {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Endpoint {
  std::string host;
  uint16_t port = 0;
  std::string ToString() const;
};
absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text);

struct Listener {
  UniqueFd fd;
  Endpoint endpoint;  // with the port the kernel chose when 0 was asked
};
// Binds and listens (backlog 128, non-blocking, close-on-exec). Port 0: the kernel chooses.
absl::StatusOr<Listener> Listen(const Endpoint& endpoint);

// Starts a non-blocking connect; writable (POLLOUT) once connected or failed.
absl::StatusOr<UniqueFd> StartConnect(const Endpoint& endpoint);

}  // namespace lockstep
