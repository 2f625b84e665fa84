#include "allreduce/transport/tcp_controls.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {

TcpControls::TcpControls(int rank, int64_t epoch, std::vector<UniqueFd> sockets, const Clock& clock,
                         const Abort& abort)
    : rank_(rank), clock_(clock), abort_(abort), peers_(sockets.size()) {
  controls_.reserve(sockets.size());
  for (UniqueFd& socket : sockets) controls_.emplace_back(std::move(socket), epoch);
}

bool TcpControls::Look() {
  bool changed = false;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (controls_[peer].Move(&peers_[peer])) changed = true;
  }
  return changed;
}

void TcpControls::Want(int peer) {
  PeerState& state = peers_[static_cast<size_t>(peer)];
  if (state.left) state.lost = true;
}

absl::Status TcpControls::PeerError() const {
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

void TcpControls::SendReport(std::span<const std::byte> report) {
  CHECK_LE(report.size(), kReportBytesMax);
  for (TcpControl& control : controls_) control.Send(MessageKind::kReport, report);
}

void TcpControls::SayGoodbye() {
  for (TcpControl& control : controls_) control.Send(MessageKind::kGoodbye, {});
}

absl::Status TcpControls::AwaitReports(int64_t deadline_ns) {
  while (true) {
    if (Look()) return absl::OkStatus();
    if (clock_.NowNs() >= deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank_, " got no more reports"));
    }
    bool news = false;  // or the deadline: the loop looks at both
    RETURN_IF_ERROR(Wait({}, deadline_ns, &news));
  }
}

absl::Status TcpControls::Wait(std::span<const pollfd> others, int64_t deadline_ns, bool* news) {
  poll_.clear();
  poll_.push_back({abort_.fd(), POLLIN, 0});
  for (const TcpControl& control : controls_) {
    if (!control.open()) continue;
    const int events = POLLIN | (control.sending() ? POLLOUT : 0);
    poll_.push_back({control.fd(), static_cast<int16_t>(events), 0});
  }
  const auto controls_end = static_cast<ptrdiff_t>(poll_.size());
  poll_.insert(poll_.end(), others.begin(), others.end());
  const int64_t left_ns = std::max<int64_t>(0, deadline_ns - clock_.NowNs());
  const timespec left{left_ns / kNsPerSecond, left_ns % kNsPerSecond};
  if (ppoll(poll_.data(), poll_.size(), &left, nullptr) < 0 && errno != EINTR) {
    return ErrnoStatus(errno, absl::StrCat("rank ", rank_, ": poll"));
  }
  *news = std::any_of(poll_.begin() + 1, poll_.begin() + controls_end,
                      [](const pollfd& polled) { return polled.revents != 0; });
  return abort_.status();
}

}  // namespace lockstep
