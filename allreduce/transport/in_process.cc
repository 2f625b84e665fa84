#include "allreduce/transport/in_process.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/sync.h"

namespace lockstep {
namespace {

constexpr int64_t kLookMs = 5;  // how long a wait may go without a look at clock and abort

struct Message {
  MessageHeader header;
  std::vector<std::byte> payload;
};

// A connection: a circle of slots whose payload buffers are kept, so that a steady state allocates
// nothing.
struct Queue {
  std::vector<Message> slots;
  size_t first = 0;
  size_t used = 0;
};

struct Hub {
  explicit Hub(const InProcessGroup& group)
      : n(static_cast<size_t>(group.world_size)),
        channels(static_cast<size_t>(group.channels)),
        queues(n * n * channels),
        reports(n * n),
        lost(n),
        left(n) {
    for (Queue& queue : queues) queue.slots.resize(static_cast<size_t>(group.slots));
  }
  size_t Index(int from, int to, uint16_t channel) const {
    return (static_cast<size_t>(from) * n + static_cast<size_t>(to)) * channels + channel;
  }

  const size_t n;
  const size_t channels;
  Mutex mu;
  std::vector<Queue> queues ABSL_GUARDED_BY(mu);         // [from][to][channel]
  std::vector<std::string> reports ABSL_GUARDED_BY(mu);  // [from][to]
  std::vector<uint8_t> lost ABSL_GUARDED_BY(mu);         // [rank]: destroyed with work pending
  std::vector<uint8_t> left ABSL_GUARDED_BY(mu);         // [rank]: destroyed
};

class InProcessLink final : public Link {
 public:
  // The hub is shared: whichever link goes last frees it.
  InProcessLink(std::shared_ptr<Hub> hub, const InProcessGroup& group, int rank,
                const Limits& limits, const Clock& clock, const Abort& abort)
      : hub_(std::move(hub)),
        group_(group),
        rank_(rank),
        message_bytes_max_(limits.message_bytes_max),
        clock_(clock),
        abort_(abort),
        ends_(hub_->n * hub_->channels),
        peers_(hub_->n) {}

  ~InProcessLink() override {
    MutexLock lock(&hub_->mu);
    const auto self = static_cast<size_t>(rank_);
    hub_->left[self] = 1;
    hub_->lost[self] = HasPending() ? 1 : 0;
  }

  int rank() const override { return rank_; }
  int world_size() const override { return group_.world_size; }
  int channels() const override { return group_.channels; }
  int64_t epoch() const override { return group_.epoch; }
  std::string name() const override { return "in_process"; }
  const std::vector<PeerState>& peers() const override { return peers_; }
  absl::Status abort_status() const override { return abort_.status(); }
  Traffic traffic() const override { return traffic_; }

  void PostSend(SendRequest* request) override {
    request->done = false;
    EndOf(request->peer, request->header.channel).sends.push(request);
  }

  void PostRecv(RecvRequest* request) override {
    request->done = false;
    EndOf(request->peer, request->expected.channel).recvs.push(request);
  }

  void Cancel() override {
    for (End& end : ends_) {
      end.sends.clear();
      end.recvs.clear();
    }
  }

  absl::Status Progress(int64_t deadline_ns) override {
    MutexLock lock(&hub_->mu);
    while (true) {
      RETURN_IF_ERROR(abort_.status());
      bool completed = false;
      RETURN_IF_ERROR(MoveAll(&completed));
      RETURN_IF_ERROR(LookAtPeers());
      const int64_t now_ns = clock_.NowNs();
      if (now_ns >= deadline_ns) return Pending();
      if (completed) return absl::OkStatus();
      hub_->mu.AwaitFor([this]()
                            ABSL_NO_THREAD_SAFETY_ANALYSIS { return CanMove() || PeersChanged(); },
                        WaitMs(deadline_ns - now_ns));
    }
  }

  void SendReport(std::span<const std::byte> report) override {
    CHECK_LE(report.size(), kReportBytesMax);
    MutexLock lock(&hub_->mu);
    for (size_t peer = 0; peer < hub_->n; ++peer) {
      hub_->reports[static_cast<size_t>(rank_) * hub_->n + peer].assign(
          reinterpret_cast<const char*>(report.data()), report.size());
    }
  }

  absl::Status AwaitReports(int64_t deadline_ns) override {
    MutexLock lock(&hub_->mu);
    while (true) {
      RETURN_IF_ERROR(abort_.status());
      if (PeersChanged()) {
        CopyPeers();
        return absl::OkStatus();
      }
      const int64_t now_ns = clock_.NowNs();
      if (now_ns >= deadline_ns) {
        return absl::DeadlineExceededError(absl::StrCat("rank ", rank_, " got no more reports"));
      }
      hub_->mu.AwaitFor([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return PeersChanged(); },
                        WaitMs(deadline_ns - now_ns));
    }
  }

 private:
  struct End {
    RequestQueue<SendRequest> sends;
    RequestQueue<RecvRequest> recvs;
  };

  static int64_t WaitMs(int64_t left_ns) {
    return std::clamp<int64_t>(left_ns / kNsPerMs, 1, kLookMs);
  }

  End& EndOf(int peer, uint16_t channel) {
    CHECK(peer >= 0 && peer < group_.world_size && peer != rank_) << "peer " << peer;
    CHECK_LT(channel, hub_->channels);
    return ends_[static_cast<size_t>(peer) * hub_->channels + channel];
  }
  int PeerOf(size_t end) const { return static_cast<int>(end / hub_->channels); }
  uint16_t ChannelOf(size_t end) const { return static_cast<uint16_t>(end % hub_->channels); }
  Queue& QueueTo(size_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    return hub_->queues[hub_->Index(rank_, PeerOf(end), ChannelOf(end))];
  }
  Queue& QueueFrom(size_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    return hub_->queues[hub_->Index(PeerOf(end), rank_, ChannelOf(end))];
  }

  bool HasPending() const {
    return std::any_of(ends_.begin(), ends_.end(),
                       [](const End& end) { return !end.sends.empty() || !end.recvs.empty(); });
  }

  bool CanMove() ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (!ends_[i].recvs.empty() && QueueFrom(i).used > 0) return true;
      if (!ends_[i].sends.empty() && QueueTo(i).used < QueueTo(i).slots.size()) return true;
    }
    return false;
  }

  absl::Status MoveAll(bool* completed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    for (size_t i = 0; i < ends_.size(); ++i) {
      End& end = ends_[i];
      while (!end.sends.empty() && QueueTo(i).used < QueueTo(i).slots.size()) {
        PutIn(&QueueTo(i), end.sends.front());
        end.sends.pop();
        *completed = true;
      }
      while (!end.recvs.empty() && QueueFrom(i).used > 0) {
        RETURN_IF_ERROR(TakeOut(&QueueFrom(i), end.recvs.front()));
        end.recvs.pop();
        *completed = true;
      }
    }
    return absl::OkStatus();
  }

  void PutIn(Queue* queue, SendRequest* request) {
    Message& slot = queue->slots[(queue->first + queue->used) % queue->slots.size()];
    slot.header = request->header;
    slot.payload.assign(request->payload.begin(), request->payload.end());
    ++queue->used;
    request->done = true;
    traffic_.sent_bytes += static_cast<int64_t>(sizeof(MessageHeader) + request->payload.size());
    ++traffic_.sent_messages;
  }

  absl::Status TakeOut(Queue* queue, RecvRequest* request) {
    const Message& message = queue->slots[queue->first];
    RETURN_IF_ERROR(
        CheckHeader(rank_, request->peer, request->expected, message.header, message_bytes_max_));
    if (message.payload.size() != request->payload.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank_, ": message from rank ", request->peer, " carries ",
          message.payload.size(), " bytes, its header says ", message.header.payload_bytes));
    }
    std::copy(message.payload.begin(), message.payload.end(), request->payload.begin());
    queue->first = (queue->first + 1) % queue->slots.size();
    --queue->used;
    request->done = true;
    traffic_.received_bytes +=
        static_cast<int64_t>(sizeof(MessageHeader) + request->payload.size());
    ++traffic_.received_messages;
    return absl::OkStatus();
  }

  const std::string& ReportFrom(size_t peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    return hub_->reports[peer * hub_->n + static_cast<size_t>(rank_)];
  }

  bool PeersChanged() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peer == static_cast<size_t>(rank_)) continue;
      const PeerState& known = peers_[peer];
      if ((hub_->lost[peer] != 0 && !known.lost) || (hub_->left[peer] != 0 && !known.left) ||
          (!ReportFrom(peer).empty() && known.report.empty())) {
        return true;
      }
    }
    return false;
  }

  void CopyPeers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peer == static_cast<size_t>(rank_)) continue;
      peers_[peer].lost = peers_[peer].lost || hub_->lost[peer] != 0;
      peers_[peer].left = hub_->left[peer] != 0;
      if (peers_[peer].report.empty()) peers_[peer].report = ReportFrom(peer);
    }
  }

  // Reports first: a peer that reported and then closed its link isn't lost.
  absl::Status LookAtPeers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub_->mu) {
    if (PeersChanged()) CopyPeers();
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (peers_[peer].report.empty()) continue;
      return absl::AbortedError(absl::StrCat("rank ", peer, " reports a failure"));
    }
    for (size_t i = 0; i < ends_.size(); ++i) {
      const bool wanted = !ends_[i].recvs.empty() || !ends_[i].sends.empty();
      PeerState& peer = peers_[static_cast<size_t>(PeerOf(i))];
      if (peer.left && wanted) peer.lost = true;
    }
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (!peers_[peer].lost) continue;
      return absl::UnavailableError(
          absl::StrCat("rank ", rank_, " lost rank ", peer, ": its link was closed"));
    }
    return absl::OkStatus();
  }

  absl::Status Pending() const {
    std::vector<int> senders;
    std::vector<int> receivers;
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (!ends_[i].recvs.empty()) senders.push_back(PeerOf(i));
      if (!ends_[i].sends.empty()) receivers.push_back(PeerOf(i));
    }
    return PendingError(rank_, senders, receivers);
  }

  const std::shared_ptr<Hub> hub_;
  const InProcessGroup group_;
  const int rank_;
  const int64_t message_bytes_max_;
  const Clock& clock_;
  const Abort& abort_;
  std::vector<End> ends_;  // [peer][channel]
  std::vector<PeerState> peers_;
  Traffic traffic_;
};

}  // namespace

std::vector<std::unique_ptr<Link>> MakeInProcessLinks(const InProcessGroup& group,
                                                      const Limits& limits, const Clock& clock,
                                                      const Abort& abort) {
  CHECK_GE(group.world_size, 1);
  CHECK_GE(group.channels, 1);
  CHECK_GE(group.slots, 1);
  const auto hub = std::make_shared<Hub>(group);
  std::vector<std::unique_ptr<Link>> links;
  links.reserve(hub->n);
  for (int rank = 0; rank < group.world_size; ++rank) {
    links.push_back(std::make_unique<InProcessLink>(hub, group, rank, limits, clock, abort));
  }
  return links;
}

}  // namespace lockstep
