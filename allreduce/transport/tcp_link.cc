#include "allreduce/transport/tcp_link.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Looks at the data connections before the first sleep: a sleeping thread is woken 35-40 us late,
// or a time slice late where others compute; a yielding one isn't.
constexpr int kSpins = 100;

}  // namespace

TcpLink::TcpLink(const TcpGroup& group, std::vector<TcpPeerSockets> sockets, const Limits& limits,
                 const Clock& clock, const Abort& abort)
    : rank_(group.rank),
      channels_(group.channels),
      epoch_(group.epoch),
      clock_(clock),
      abort_(abort),
      peers_(sockets.size()) {
  for (size_t peer = 0; peer < sockets.size(); ++peer) {
    first_.push_back(connections_.size());
    controls_.emplace_back(std::move(sockets[peer].control), epoch_);
    for (UniqueFd& fd : sockets[peer].data) {
      connections_.emplace_back(std::move(fd), rank_, static_cast<int>(peer),
                                limits.message_bytes_max);
    }
  }
}

TcpLink::~TcpLink() {
  const bool pending =
      std::any_of(connections_.begin(), connections_.end(),
                  [](const TcpConnection& c) { return c.sending() || c.receiving(); });
  if (pending || cancelled_) return;  // peers see a lost rank, or have our report
  for (TcpControl& control : controls_) control.Send(MessageKind::kGoodbye, {});
}

TcpConnection& TcpLink::To(int peer, uint16_t channel) {
  CHECK(peer >= 0 && peer < world_size() && peer != rank_) << "peer " << peer;
  CHECK_LT(channel, channels_);
  return connections_[first_[static_cast<size_t>(peer)] + channel];
}

void TcpLink::PostSend(SendRequest* request) {
  CHECK(!cancelled_);
  request->done = false;
  To(request->peer, request->header.channel).PostSend(request, &traffic_);
}

void TcpLink::PostRecv(RecvRequest* request) {
  CHECK(!cancelled_);
  request->done = false;
  To(request->peer, request->expected.channel).PostRecv(request);
}

void TcpLink::Cancel() {
  cancelled_ = true;
  for (TcpConnection& connection : connections_) connection.Cancel();
}

absl::Status TcpLink::MoveData(bool* completed) {
  for (TcpConnection& connection : connections_) {
    if (!connection.sending() && !connection.receiving()) continue;
    absl::Status status = connection.Move(&traffic_, completed);
    if (status.ok()) continue;
    if (absl::IsUnavailable(status)) {
      // A peer that failed reports first and closes then: its report says more than the closed
      // connection.
      LookAtControls();
      PeerState& peer = peers_[static_cast<size_t>(connection.peer())];
      if (peer.left) peer.lost = true;  // it left while something was wanted from it
      RETURN_IF_ERROR(PeerError());
    }
    return status;
  }
  return absl::OkStatus();
}

bool TcpLink::LookAtControls() {
  bool changed = false;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (controls_[peer].Move(&peers_[peer])) changed = true;
  }
  return changed;
}

absl::Status TcpLink::PeerError() const {
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].report.empty()) continue;
    return absl::AbortedError(absl::StrCat("rank ", peer, " reports a failure"));
  }
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].lost) continue;
    return absl::UnavailableError(
        absl::StrCat("rank ", rank_, " lost rank ", peer, ": its connection was closed"));
  }
  return absl::OkStatus();
}

absl::Status TcpLink::Pending() const {
  std::vector<int> senders;
  std::vector<int> receivers;
  for (const TcpConnection& connection : connections_) {
    if (connection.receiving()) senders.push_back(connection.peer());
    if (connection.sending()) receivers.push_back(connection.peer());
  }
  return PendingError(rank_, senders, receivers);
}

absl::Status TcpLink::Progress(int64_t deadline_ns) {
  RETURN_IF_ERROR(abort_.status());
  RETURN_IF_ERROR(PeerError());
  bool completed = false;
  for (int spin = 0; spin < kSpins && !completed; ++spin) {
    if (spin > 0) sched_yield();
    RETURN_IF_ERROR(MoveData(&completed));
  }
  while (true) {
    if (clock_.NowNs() >= deadline_ns) {
      LookAtControls();
      RETURN_IF_ERROR(PeerError());
      return Pending();
    }
    if (completed) return absl::OkStatus();
    bool news = false;
    RETURN_IF_ERROR(Wait(/*with_data=*/true, deadline_ns, &news));
    if (news && LookAtControls()) RETURN_IF_ERROR(PeerError());
    RETURN_IF_ERROR(MoveData(&completed));
  }
}

absl::Status TcpLink::Wait(bool with_data, int64_t deadline_ns, bool* news) {
  poll_.clear();
  poll_.push_back({abort_.fd(), POLLIN, 0});
  for (const TcpControl& control : controls_) {
    if (!control.open()) continue;
    const int events = POLLIN | (control.sending() ? POLLOUT : 0);
    poll_.push_back({control.fd(), static_cast<int16_t>(events), 0});
  }
  const auto data = static_cast<ptrdiff_t>(poll_.size());
  for (const TcpConnection& connection : connections_) {
    const int events = (connection.receiving() ? POLLIN : 0) | (connection.sending() ? POLLOUT : 0);
    if (!with_data || events == 0) continue;
    poll_.push_back({connection.fd(), static_cast<int16_t>(events), 0});
  }
  const int64_t left_ns = std::max<int64_t>(0, deadline_ns - clock_.NowNs());
  const timespec left{left_ns / kNsPerSecond, left_ns % kNsPerSecond};
  if (ppoll(poll_.data(), poll_.size(), &left, nullptr) < 0 && errno != EINTR) {
    return ErrnoStatus(errno, absl::StrCat("rank ", rank_, ": poll"));
  }
  *news = std::any_of(poll_.begin() + 1, poll_.begin() + data,
                      [](const pollfd& polled) { return polled.revents != 0; });
  return abort_.status();
}

void TcpLink::SendReport(std::span<const std::byte> report) {
  CHECK_LE(report.size(), kReportBytesMax);
  for (TcpControl& control : controls_) control.Send(MessageKind::kReport, report);
}

absl::Status TcpLink::AwaitReports(int64_t deadline_ns) {
  while (true) {
    if (LookAtControls()) return absl::OkStatus();
    if (clock_.NowNs() >= deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank_, " got no more reports"));
    }
    bool news = false;  // or the deadline: the loop looks at both
    RETURN_IF_ERROR(Wait(/*with_data=*/false, deadline_ns, &news));
  }
}

}  // namespace lockstep
