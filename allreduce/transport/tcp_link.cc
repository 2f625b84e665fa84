#include "allreduce/transport/tcp_link.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Looks at the data connections before the first sleep: a sleeping thread is woken 35-40 us late,
// or a time slice late where others compute; a yielding one isn't.
constexpr int kSpins = 100;

}  // namespace

std::vector<UniqueFd> TakeControls(std::vector<TcpPeerSockets>* sockets) {
  std::vector<UniqueFd> controls;
  controls.reserve(sockets->size());
  for (TcpPeerSockets& peer : *sockets) controls.push_back(std::move(peer.control));
  return controls;
}

TcpLink::TcpLink(const TcpGroup& group, std::vector<TcpPeerSockets> sockets, const Limits& limits,
                 const Clock& clock, const Abort& abort)
    : rank_(group.rank),
      channels_(group.channels),
      epoch_(group.epoch),
      clock_(clock),
      abort_(abort),
      controls_(rank_, epoch_, TakeControls(&sockets), clock, abort) {
  for (size_t peer = 0; peer < sockets.size(); ++peer) {
    first_.push_back(connections_.size());
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
  controls_.SayGoodbye();
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
      controls_.Look();
      controls_.Want(connection.peer());
      RETURN_IF_ERROR(controls_.PeerError());
    }
    return status;
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
  RETURN_IF_ERROR(controls_.PeerError());
  bool completed = false;
  for (int spin = 0; spin < kSpins && !completed; ++spin) {
    if (spin > 0) sched_yield();
    RETURN_IF_ERROR(MoveData(&completed));
  }
  while (true) {
    if (clock_.NowNs() >= deadline_ns) {
      controls_.Look();
      RETURN_IF_ERROR(controls_.PeerError());
      return Pending();
    }
    if (completed) return absl::OkStatus();
    bool news = false;
    RETURN_IF_ERROR(Wait(deadline_ns, &news));
    if (news && controls_.Look()) RETURN_IF_ERROR(controls_.PeerError());
    RETURN_IF_ERROR(MoveData(&completed));
  }
}

absl::Status TcpLink::Wait(int64_t deadline_ns, bool* news) {
  poll_.clear();
  for (const TcpConnection& connection : connections_) {
    const int events = (connection.receiving() ? POLLIN : 0) | (connection.sending() ? POLLOUT : 0);
    if (events != 0) poll_.push_back({connection.fd(), static_cast<int16_t>(events), 0});
  }
  return controls_.Wait(poll_, deadline_ns, news);
}

}  // namespace lockstep
