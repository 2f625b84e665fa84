#include "allreduce/transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/transport/tcp_hello.h"
#include "allreduce/transport/tcp_link.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr size_t kTokenBytesMax = 256;
constexpr size_t kStrangersMax = 64;  // unproven connections kept at once, beyond those expected
constexpr int kAcceptsMax = 16;       // before those accepted get their turn

absl::Status UseCongestionControl(int fd, const std::string& name) {
  if (name.empty() || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                                 static_cast<socklen_t>(name.size())) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::string available;
  std::getline(file, available);
  return absl::InvalidArgumentError(
      absl::StrCat("congestion control '", name, "' cannot be used (", std::strerror(error),
                   "); this system has: ", available.empty() ? "no list" : available));
}

enum class Outcome { kPending, kProven, kStranger };

// One connection until both ends have proved themselves. Never reads past the other's hello.
class Handshake {
 public:
  // We connect: we know whom and speak first.
  Handshake(UniqueFd fd, const TcpGroup& group, int peer, int32_t channel)
      : fd_(std::move(fd)),
        group_(group),
        outgoing_(true),
        peer_(peer),
        channel_(channel),
        out_(EncodeHello(group, channel)) {}
  // We accepted: the other end says who it is and gets our hello once it fits.
  Handshake(UniqueFd fd, const TcpGroup& group) : fd_(std::move(fd)), group_(group) {}

  Outcome Move() {
    if (outgoing_ && !Flush()) return Fail(errno);
    while (!Heard()) {
      std::array<char, sizeof(Hello) + kTokenBytesMax> buffer{};
      const size_t wanted =
          in_.size() < sizeof(Hello) ? sizeof(Hello) - in_.size() : HelloBytes() - in_.size();
      const ssize_t bytes = recv(fd_.get(), buffer.data(), wanted, MSG_DONTWAIT);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) {
        return Outcome::kPending;
      }
      if (bytes <= 0) return Fail(bytes < 0 ? errno : 0);
      in_.append(buffer.data(), static_cast<size_t>(bytes));
      if (in_.size() == sizeof(Hello) && !TakeHello()) return Outcome::kStranger;
      if (Heard() && !TokensEqual(in_.substr(sizeof(Hello)), group_.token)) {
        return Outcome::kStranger;
      }
    }
    if (!outgoing_ && !answered_) {
      out_ = EncodeHello(group_, channel_);
      answered_ = true;
    }
    if (!Flush()) return Fail(errno);
    return out_.empty() ? Outcome::kProven : Outcome::kPending;
  }

  int16_t events() const { return static_cast<int16_t>(out_.empty() ? POLLIN : POLLIN | POLLOUT); }
  int fd() const { return fd_.get(); }
  bool outgoing() const { return outgoing_; }
  int peer() const { return peer_; }
  int32_t channel() const { return channel_; }
  int error() const { return error_; }  // errno of a broken connection; 0: closed by the other end
  UniqueFd TakeFd() { return std::move(fd_); }

 private:
  Outcome Fail(int error) {
    error_ = error;
    return Outcome::kStranger;
  }
  size_t HelloBytes() const { return sizeof(Hello) + group_.token.size(); }
  bool Heard() const { return in_.size() == HelloBytes(); }

  bool TakeHello() {
    Hello hello;
    std::memcpy(&hello, in_.data(), sizeof(hello));
    if (!HelloFits(group_, hello)) return false;
    if (outgoing_) return hello.rank == peer_ && hello.channel == channel_;
    if (hello.rank < group_.rank) return false;  // we connect to those below us, never they to us
    peer_ = hello.rank;
    channel_ = hello.channel;
    return true;
  }

  bool Flush() {
    while (!out_.empty()) {
      const ssize_t bytes = send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN;
      out_.erase(0, static_cast<size_t>(bytes));
    }
    return true;
  }

  UniqueFd fd_;
  const TcpGroup& group_;
  bool outgoing_ = false;
  bool answered_ = false;
  int peer_ = -1;
  int32_t channel_ = 0;
  int error_ = 0;
  std::string out_;
  std::string in_;
};

class MeshBuilder {
 public:
  MeshBuilder(Listener listener, const TcpGroup& group, const Limits& limits, const Clock& clock,
              const Abort& abort)
      : listener_(std::move(listener)),
        group_(group),
        connect_timeout_ms_(limits.connect_timeout_ms),
        clock_(clock),
        abort_(abort),
        sockets_(group.endpoints.size()) {
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == group_.rank) continue;
      sockets_[static_cast<size_t>(peer)].data.resize(static_cast<size_t>(group_.channels));
      missing_ += static_cast<size_t>(group_.channels) + 1;
    }
  }

  absl::StatusOr<std::vector<TcpPeerSockets>> Build() {
    const int64_t deadline_ns = clock_.NowNs() + connect_timeout_ms_ * kNsPerMs;
    for (int peer = 0; peer < group_.rank; ++peer) {
      for (int32_t channel = kControlChannel; channel < group_.channels; ++channel) {
        absl::StatusOr<UniqueFd> fd = StartConnect(group_.endpoints[static_cast<size_t>(peer)]);
        if (!fd.ok()) {
          const std::string ranks = absl::StrCat("rank ", group_.rank, " to rank ", peer);
          return Blame(Annotate(fd.status(), ranks), {absl::StrCat("rank ", peer)});
        }
        RETURN_IF_ERROR(UseCongestionControl(fd->get(), group_.congestion_control));
        handshakes_.emplace_back(*std::move(fd), group_, peer, channel);
      }
    }
    while (missing_ > 0) {
      RETURN_IF_ERROR(Wait(deadline_ns));
      RETURN_IF_ERROR(Accept());
      for (auto it = handshakes_.begin(); it != handshakes_.end();) {
        const Outcome outcome = it->Move();
        if (outcome == Outcome::kStranger && it->outgoing()) return Refused(*it);
        if (outcome == Outcome::kProven) Take(&*it);
        it = outcome == Outcome::kPending ? std::next(it) : handshakes_.erase(it);
      }
    }
    return std::move(sockets_);
  }

 private:
  int world_size() const { return static_cast<int>(group_.endpoints.size()); }

  UniqueFd& Place(int peer, int32_t channel) {
    TcpPeerSockets& sockets = sockets_[static_cast<size_t>(peer)];
    return channel == kControlChannel ? sockets.control
                                      : sockets.data[static_cast<size_t>(channel)];
  }

  void Take(Handshake* handshake) {
    UniqueFd& place = Place(handshake->peer(), handshake->channel());
    if (place.valid()) return;  // a second one for the same place is closed
    place = handshake->TakeFd();
    --missing_;
  }

  absl::Status Accept() {
    for (int i = 0; i < kAcceptsMax; ++i) {
      UniqueFd fd(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        // Anything but the listener's own failure concerns a connection that is gone already.
        if (errno == EBADF || errno == EINVAL || errno == EMFILE || errno == ENFILE) {
          return ErrnoStatus(errno, absl::StrCat("rank ", group_.rank, ": accept"));
        }
        if (errno == EINTR || errno == ECONNABORTED) continue;
        return absl::OkStatus();
      }
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      RETURN_IF_ERROR(UseCongestionControl(fd.get(), group_.congestion_control));
      if (handshakes_.size() >= missing_ + kStrangersMax) DropOldestStranger();
      handshakes_.emplace_back(std::move(fd), group_);
    }
    return absl::OkStatus();
  }

  void DropOldestStranger() {
    const auto oldest = std::find_if(handshakes_.begin(), handshakes_.end(),
                                     [](const Handshake& h) { return !h.outgoing(); });
    if (oldest != handshakes_.end()) handshakes_.erase(oldest);
  }

  absl::Status Wait(int64_t deadline_ns) {
    const int64_t left_ns = deadline_ns - clock_.NowNs();
    if (left_ns <= 0) return Missing();
    std::vector<pollfd> fds = {{abort_.fd(), POLLIN, 0}, {listener_.fd.get(), POLLIN, 0}};
    for (const Handshake& handshake : handshakes_) {
      fds.push_back({handshake.fd(), handshake.events(), 0});
    }
    const timespec left{left_ns / kNsPerSecond, left_ns % kNsPerSecond};
    if (ppoll(fds.data(), fds.size(), &left, nullptr) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat("rank ", group_.rank, ": poll"));
    }
    return abort_.status();
  }

  absl::Status Missing() {
    std::vector<std::string> names;
    std::vector<std::string> blamed;
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == group_.rank) continue;
      bool complete = true;
      for (int32_t channel = kControlChannel; channel < group_.channels; ++channel) {
        complete = complete && Place(peer, channel).valid();
      }
      if (complete) continue;
      names.push_back(
          absl::StrCat(peer, " (", group_.endpoints[static_cast<size_t>(peer)].ToString(), ")"));
      blamed.push_back(absl::StrCat("rank ", peer));
    }
    return Blame(absl::DeadlineExceededError(absl::StrCat(
                     "rank ", group_.rank, " of ", world_size(), ": no connection within ",
                     connect_timeout_ms_, " ms (limits.connect_timeout_ms) with ",
                     names.size() == 1 ? "rank " : "ranks ", absl::StrJoin(names, ", "))),
                 blamed);
  }

  absl::Status Refused(const Handshake& handshake) const {
    const Endpoint& endpoint = group_.endpoints[static_cast<size_t>(handshake.peer())];
    const std::string why =
        handshake.error() == 0 ? "" : absl::StrCat(" (", std::strerror(handshake.error()), ")");
    return Blame(absl::UnavailableError(absl::StrCat(
                     "rank ", group_.rank, ": rank ", handshake.peer(), " at ", endpoint.ToString(),
                     " refused or closed the connection", why,
                     "; it is gone, or of another epoch, world size, version or token")),
                 {absl::StrCat("rank ", handshake.peer())});
  }

  Listener listener_;
  const TcpGroup& group_;
  const int64_t connect_timeout_ms_;
  const Clock& clock_;
  const Abort& abort_;
  std::vector<TcpPeerSockets> sockets_;  // [rank]
  size_t missing_ = 0;                   // connections
  std::list<Handshake> handshakes_;      // oldest first
};

absl::Status CheckGroup(const TcpGroup& group) {
  const auto world_size = static_cast<int>(group.endpoints.size());
  if (group.rank < 0 || group.rank >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", group.rank, " is not one of ", world_size, " endpoints"));
  }
  constexpr int kChannelsMax = 64;  // each is a socket per peer
  if (group.channels < 1 || group.channels > kChannelsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("channels ", group.channels, " must be 1..", kChannelsMax));
  }
  if (group.token.size() > kTokenBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token has ", group.token.size(), " bytes, at most ", kTokenBytesMax));
  }
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return ErrnoStatus(errno, absl::StrCat("rank ", group.rank, ": socket"));
  return UseCongestionControl(probe.get(), group.congestion_control);
}

}  // namespace

absl::StatusOr<std::vector<TcpPeerSockets>> ConnectTcpSockets(Listener listener, TcpGroup group,
                                                              int data_channels,
                                                              const Limits& limits,
                                                              const Clock& clock,
                                                              const Abort& abort) {
  RETURN_IF_ERROR(CheckGroup(group));
  group.channels = data_channels;
  return MeshBuilder(std::move(listener), group, limits, clock, abort).Build();
}

absl::StatusOr<std::unique_ptr<Link>> ConnectTcpMesh(Listener listener, const TcpGroup& group,
                                                     const Limits& limits, const Clock& clock,
                                                     const Abort& abort) {
  ASSIGN_OR_RETURN(
      std::vector<TcpPeerSockets> sockets,
      ConnectTcpSockets(std::move(listener), group, group.channels, limits, clock, abort));
  return std::make_unique<TcpLink>(group, std::move(sockets), limits, clock, abort);
}

std::string TcpCongestionControl() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size();
  if (!fd.valid() || getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) {
    return "unknown";
  }
  return {name.data(), strnlen(name.data(), name.size())};
}

}  // namespace lockstep
