#include "base/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(endpoint.host.c_str(), absl::StrCat(endpoint.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::NotFoundError(
        absl::StrCat("host of ", endpoint.ToString(), " does not resolve: ", gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

absl::StatusOr<UniqueFd> OpenSocket(const addrinfo& address) {
  UniqueFd fd(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket");
  const int on = 1;
  if (setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return ErrnoStatus(errno, "TCP_NODELAY");
  }
  return fd;
}

absl::Status BindError(int error, const Endpoint& endpoint) {
  switch (error) {
    case EADDRINUSE:
      return absl::ResourceExhaustedError(absl::StrCat(
          "port of ", endpoint.ToString(), " is taken; choose another, or 0 for a free one"));
    case EADDRNOTAVAIL:
      return absl::FailedPreconditionError(
          absl::StrCat(endpoint.ToString(), " is not an address of this host"));
    default:
      return ErrnoStatus(error, absl::StrCat("cannot listen on ", endpoint.ToString()));
  }
}

uint16_t BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

std::string Endpoint::ToString() const {
  const bool bracketed = host.find(':') != std::string::npos;
  return bracketed ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not host:port; write 127.0.0.1:7000 or [::1]:7000"));
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return malformed;
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return malformed;
  }
  int port = 0;
  if (host.empty() || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 ||
      port > 65'535) {
    return malformed;
  }
  return Endpoint{std::move(host), static_cast<uint16_t>(port)};
}

absl::StatusOr<Listener> Listen(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const AddressList addresses, Resolve(endpoint));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(*addresses));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0) {
    return BindError(errno, endpoint);
  }
  constexpr int kBacklog = 128;  // a whole group may connect at once
  if (listen(fd.get(), kBacklog) != 0) return BindError(errno, endpoint);
  const uint16_t port = BoundPort(fd.get());
  return Listener{std::move(fd), {endpoint.host, port}};
}

absl::StatusOr<UniqueFd> StartConnect(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const AddressList addresses, Resolve(endpoint));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(*addresses));
  if (connect(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoStatus(errno, absl::StrCat("cannot connect to ", endpoint.ToString()));
  }
  return fd;
}

}  // namespace lockstep
