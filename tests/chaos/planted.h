// planted.h: processes with one bug each, in place of the simulator's real ones, so that it shows
// whether the checks find them. Test-only: the product has no such switches. Threads: one.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "experiments/simulate/cluster.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

// Rewrites frames before its exchange sees them.
class RewritingServer : public SimServer {
 public:
  using SimServer::SimServer;

 protected:
  virtual void Rewrite(int64_t stream, PsFrame* header, std::string* payload) = 0;

  std::string Admitted(int64_t stream, std::string bytes) override {
    const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes))};
    absl::StatusOr<Frame> frame = DecodeFrame(slices);
    if (!frame.ok()) return bytes;
    std::string payload;
    for (const Bytes piece : frame->payload) {
      payload.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    Rewrite(stream, &frame->header, &payload);
    return EncodeHeader(frame->header, static_cast<int64_t>(payload.size())) + payload;
  }
};

// A push that comes again counts as the next one: requests are counted, not identities.
class CountsRequests final : public RewritingServer {
 public:
  using RewritingServer::RewritingServer;

 protected:
  void Rewrite(int64_t /*stream*/, PsFrame* header, std::string* /*payload*/) override {
    if (header->kind() != PUSH) return;
    const auto seat = exchange().seats().find(header->shard());
    if (seat == exchange().seats().end() || !seat->second.copy.has_value()) return;
    const int64_t last = seat->second.copy->shard().last_step(header->worker());
    if (header->step() <= last) header->set_step(last + 1);
  }
};

// The first chunk of a push is taken for all of it: the rest counts as zeros.
class AppliesChunks final : public RewritingServer {
 public:
  using RewritingServer::RewritingServer;

 protected:
  void Rewrite(int64_t /*stream*/, PsFrame* header, std::string* payload) override {
    const std::tuple push(header->epoch(), header->worker(), header->step(), header->shard());
    if (header->kind() != PUSH || !begun_.insert(push).second) return;
    payload->insert(0, static_cast<size_t>(header->offset()) * sizeof(float), '\0');
    payload->resize(static_cast<size_t>(header->total()) * sizeof(float), '\0');
    header->set_offset(0);
  }

 private:
  std::set<std::tuple<int64_t, int32_t, int64_t, int32_t>> begun_;
};

// A successor's word that it has `message`, on the wire.
inline std::string ConfirmationOf(const PsFrame& header, const Replicate& message) {
  PsFrame answer = header;
  answer.clear_replicated();
  answer.set_kind(REPLICATED);
  answer.set_offset(0);
  answer.set_total(0);
  answer.set_version(message.version);
  answer.set_push(message.sequence);
  return EncodeHeader(answer, 0);
}

// What is sent to the successor counts as confirmed by it.
class AcknowledgesFirst final : public SimServer {
 public:
  using SimServer::SimServer;

 protected:
  void Shipped(int64_t stream, const PsFrame& header) override {
    if (header.kind() != REPLICATE || header.replicated().empty()) return;
    const absl::StatusOr<Replicate> message = DecodeReplicate(header.replicated());
    if (!message.ok() || message->kind == Replicate::Kind::kBegin) return;
    answers_[--next_] = {stream, ConfirmationOf(header, *message)};
    self_.After(0, next_);
  }
  void OnOwnTimer(int64_t timer) override {
    const auto answer = answers_.find(timer);
    if (answer == answers_.end()) return SimServer::OnOwnTimer(timer);
    OnFrame(answer->second.first, answer->second.second);
  }

 private:
  int64_t next_ = -1000;
  std::map<int64_t, std::pair<int64_t, std::string>> answers_;
};

// Whoever was replaced is not fenced: streams outlive their epoch, a successor goes on confirming
// to the head that it had, in whatever epoch it is itself, and no member has a lease on being one.
class HasNoFence final : public SimServer {
 public:
  using SimServer::SimServer;

 protected:
  int64_t LeaseNowNs() const override { return 0; }
  bool HangsUp(int64_t stream) override {
    outlived_.insert(stream);
    return false;
  }
  void OnFrame(int64_t stream, const std::string& bytes) override {
    if (!outlived_.contains(stream)) return SimServer::OnFrame(stream, bytes);
    const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes))};
    const absl::StatusOr<Frame> frame = DecodeFrame(slices);
    if (!frame.ok() || frame->header.kind() != REPLICATE) return;
    const auto message = DecodeReplicate(frame->header.replicated());
    if (!message.ok()) return;  // a later chunk
    self_.Send(stream, ConfirmationOf(frame->header, *message));
  }

 private:
  std::set<int64_t> outlived_;
};
class WorkerWithoutLease final : public SimWorker {
 public:
  using SimWorker::SimWorker;

 protected:
  int64_t LeaseNowNs() const override { return 0; }
};

// A restored shard has forgotten what it applied.
class ForgetsDedup final : public SimServer {
 public:
  using SimServer::SimServer;

 protected:
  ShardState Restored(ShardState state) const override {
    for (WorkerMark& mark : state.workers) mark = {};
    return state;
  }
};

class WallLeaseServer final : public SimServer {
 public:
  using SimServer::SimServer;

 protected:
  int64_t LeaseNowNs() const override { return self_.WallNs(); }
};
class WallLeaseCoordinator final : public SimCoordinator {
 public:
  using SimCoordinator::SimCoordinator;

 protected:
  int64_t LeaseNowNs() const override { return self_.WallNs(); }
};

template <typename Server>
SimMakers MakersWith() {
  SimMakers makers = RealMakers();
  makers.server = [](const SimContext& self, SimServerOptions options, SimDisk* disk,
                     SimServerEvents events) -> std::unique_ptr<SimServer> {
    return std::make_unique<Server>(self, std::move(options), disk, std::move(events));
  };
  return makers;
}

}  // namespace lockstep
