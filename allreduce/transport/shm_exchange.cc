#include "allreduce/transport/shm_exchange.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace lockstep {
namespace {

// A full queue of a peer's socket cannot be polled; it is tried again so often.
constexpr int64_t kRetryNs = kNsPerMs;
constexpr size_t kFilesMax = 4;  // of a stranger's datagram: they must be closed

struct FileMessage {
  uint32_t magic = kShmMagic;
  int32_t rank = 0;                    // the sender's
  std::array<std::byte, 16> secret{};  // the receiver's
};
static_assert(sizeof(FileMessage) == 24, "no padding: sent as bytes");

std::array<char, 36> BootId() {
  std::array<char, 36> id{};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(id.data(), id.size());
  return id;
}

uint64_t NetworkNamespace() {
  struct stat file {};
  return stat("/proc/self/ns/net", &file) == 0 ? static_cast<uint64_t>(file.st_ino) : 0;
}

std::string Shape(const ShmGreeting& greeting) {
  return absl::StrCat("host ", std::string(greeting.boot.data(), greeting.boot.size()),
                      ", network namespace ", greeting.network, ", version ", greeting.version,
                      ", ", greeting.channels, " channels, ", greeting.total_bytes, " bytes");
}

// Room for the descriptors of one datagram, aligned as the kernel wants it.
union FileControl {
  cmsghdr alignment;
  std::array<char, CMSG_SPACE(kFilesMax * sizeof(int))> bytes;
};

std::vector<UniqueFd> FilesOf(msghdr* message) {
  std::vector<UniqueFd> files;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
      files.emplace_back(fd);
    }
  }
  return files;
}

}  // namespace

ShmExchange::ShmExchange(int rank, const std::vector<UniqueFd>& controls, const Clock& clock,
                         const Abort& abort, int64_t deadline_ns)
    : rank_(rank),
      controls_(controls),
      clock_(clock),
      abort_(abort),
      deadline_ns_(deadline_ns),
      peers_(controls.size()),
      files_(controls.size()) {}

absl::Status ShmExchange::Bind(ShmGreeting* own) {
  socket_ = UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return ErrnoStatus(errno, "unix socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // without a name: the kernel chooses one that is free
  socklen_t size = sizeof(sa_family_t);
  if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return ErrnoStatus(errno, "unix socket: bind");
  }
  size = sizeof(address);
  if (getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "unix socket: getsockname");
  }
  const size_t name = size - offsetof(sockaddr_un, sun_path) - 1;  // an abstract one starts with 0
  if (name > own->socket.size()) return absl::InternalError("unix socket: a name that is too long");
  std::memcpy(own->socket.data(), address.sun_path + 1, name);
  if (getrandom(own->secret.data(), own->secret.size(), 0) !=
      static_cast<ssize_t>(own->secret.size())) {
    return ErrnoStatus(errno, "getrandom");
  }
  return absl::OkStatus();
}

absl::Status ShmExchange::Greet(int channels, int64_t total_bytes) {
  own_.channels = channels;
  own_.total_bytes = total_bytes;
  own_.network = NetworkNamespace();
  own_.boot = BootId();
  RETURN_IF_ERROR(Annotate(Bind(&own_), absl::StrCat("rank ", rank_)));
  while (true) {
    bool all = true;
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      if (peer == rank_) continue;
      RETURN_IF_ERROR(MoveGreeting(peer));
      all = all && Complete(peer);
    }
    if (all) break;
    RETURN_IF_ERROR(GoneError());
    RETURN_IF_ERROR(Wait());
  }
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    if (peer != rank_) RETURN_IF_ERROR(Check(peer));
  }
  return absl::OkStatus();
}

bool ShmExchange::Complete(int peer) const {
  const auto p = static_cast<size_t>(peer);
  if (sharing_) return peers_[p].file_sent && files_[p].valid();
  return peers_[p].sent == sizeof(ShmGreeting) && peers_[p].received == sizeof(ShmGreeting);
}

absl::Status ShmExchange::MoveGreeting(int peer) {
  Peer& state = peers_[static_cast<size_t>(peer)];
  const int fd = controls_[static_cast<size_t>(peer)].get();
  const auto out = std::as_bytes(std::span(&own_, 1)).subspan(state.sent);
  if (!out.empty()) {
    const ssize_t bytes = send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes > 0) state.sent += static_cast<size_t>(bytes);
  }
  const auto in = std::as_writable_bytes(std::span(&state.greeting, 1)).subspan(state.received);
  if (in.empty()) return absl::OkStatus();
  const ssize_t bytes = recv(fd, in.data(), in.size(), MSG_DONTWAIT);
  if (bytes > 0) state.received += static_cast<size_t>(bytes);
  const bool later = bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  if (bytes <= 0 && !later) state.gone = true;
  return absl::OkStatus();
}

absl::Status ShmExchange::Check(int peer) const {
  const ShmGreeting& other = peers_[static_cast<size_t>(peer)].greeting;
  const bool same = other.magic == own_.magic && other.version == own_.version &&
                    other.channels == own_.channels && other.total_bytes == own_.total_bytes &&
                    other.network == own_.network && other.boot == own_.boot;
  if (same) return absl::OkStatus();
  return Blame(absl::FailedPreconditionError(absl::StrCat(
                   "rank ", rank_, " and rank ", peer, " cannot share memory: ", Shape(own_),
                   " here; ", Shape(other), " there. The link SHM joins processes of one host; ",
                   "use TCP between hosts")),
               {absl::StrCat("rank ", peer)});
}

absl::StatusOr<std::vector<UniqueFd>> ShmExchange::Share(int file) {
  sharing_ = true;
  while (true) {
    bool all = true;
    TakeFiles();
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      if (peer == rank_) continue;
      if (!peers_[static_cast<size_t>(peer)].file_sent) RETURN_IF_ERROR(SendFile(file, peer));
      all = all && Complete(peer);
    }
    if (all) return std::move(files_);
    RETURN_IF_ERROR(GoneError());
    RETURN_IF_ERROR(Wait());
  }
}

absl::Status ShmExchange::SendFile(int file, int peer) {
  Peer& state = peers_[static_cast<size_t>(peer)];
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::array<char, 12>& name = state.greeting.socket;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  FileMessage content;
  content.rank = rank_;
  content.secret = state.greeting.secret;
  iovec bytes{&content, sizeof(content)};
  FileControl control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                               strnlen(name.data(), name.size()));
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &file, sizeof(file));
  if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
    state.file_sent = true;
    return absl::OkStatus();
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS) {
    return absl::OkStatus();
  }
  return Blame(
      ErrnoStatus(errno, absl::StrCat("rank ", rank_, ": rank ", peer,
                                      " cannot be sent our shared memory; it may be gone")),
      {absl::StrCat("rank ", peer)});
}

void ShmExchange::TakeFiles() {
  while (true) {
    std::array<std::byte, sizeof(FileMessage)> content{};
    iovec bytes{content.data(), content.size()};
    FileControl control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t received = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0) return;
    Place(FilesOf(&message), content.data(), static_cast<size_t>(received));
  }
}

// Whatever isn't the one file of a peer is closed.
void ShmExchange::Place(std::vector<UniqueFd> received, const std::byte* message, size_t bytes) {
  FileMessage content;
  if (bytes != sizeof(content) || received.size() != 1) return;
  std::memcpy(&content, message, sizeof(content));
  const bool ours = content.magic == kShmMagic && content.secret == own_.secret &&
                    content.rank >= 0 && content.rank < static_cast<int>(files_.size()) &&
                    content.rank != rank_;
  if (!ours) return;
  UniqueFd& place = files_[static_cast<size_t>(content.rank)];
  if (!place.valid()) place = std::move(received.front());
}

absl::Status ShmExchange::Wait() {
  const int64_t left_ns = deadline_ns_ - clock_.NowNs();
  if (left_ns <= 0) return Missing(sharing_ ? "no shared memory from" : "no greeting from");
  std::vector<pollfd> fds = {{abort_.fd(), POLLIN, 0}};
  if (sharing_) fds.push_back({socket_.get(), POLLIN, 0});
  const size_t first = fds.size();
  bool retry = false;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    // A peer that is through may already send what belongs to the link: that isn't ours to read.
    const bool done = static_cast<int>(peer) == rank_ || Complete(static_cast<int>(peer));
    const auto events = static_cast<int16_t>(sharing_ ? POLLRDHUP : POLLIN);
    fds.push_back({done ? -1 : controls_[peer].get(), events, 0});
    retry =
        retry ||
        (!done && !(sharing_ ? peers_[peer].file_sent : peers_[peer].sent == sizeof(ShmGreeting)));
  }
  const int64_t wait_ns = retry ? std::min(left_ns, kRetryNs) : left_ns;
  const timespec wait{wait_ns / kNsPerSecond, wait_ns % kNsPerSecond};
  if (ppoll(fds.data(), fds.size(), &wait, nullptr) < 0 && errno != EINTR) {
    return ErrnoStatus(errno, absl::StrCat("rank ", rank_, ": poll"));
  }
  constexpr int kGone = POLLRDHUP | POLLHUP | POLLERR;
  if (sharing_) TakeFiles();  // what was sent before the peer closed
  for (size_t peer = 0; peer < peers_.size() && sharing_; ++peer) {
    if ((fds[first + peer].revents & kGone) != 0 && !Complete(static_cast<int>(peer))) {
      peers_[peer].gone = true;
    }
  }
  return abort_.status();
}

absl::Status ShmExchange::GoneError() const {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].gone) continue;
    return Blame(absl::UnavailableError(absl::StrCat("rank ", rank_, " lost rank ", peer,
                                                     " while they set up shared memory; its own "
                                                     "error says why")),
                 {absl::StrCat("rank ", peer)});
  }
  return absl::OkStatus();
}

absl::Status ShmExchange::Missing(const std::string& what) const {
  std::vector<std::string> names;
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    if (peer != rank_ && !Complete(peer)) names.push_back(absl::StrCat("rank ", peer));
  }
  return Blame(absl::DeadlineExceededError(absl::StrCat("rank ", rank_, ": ", what, " ",
                                                        absl::StrJoin(names, ", "),
                                                        " within limits.connect_timeout_ms")),
               names);
}

}  // namespace lockstep
