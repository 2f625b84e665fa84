// dying_link.h: a link whose process is killed in the middle of its work, for tests: after
// `sends_left` sends its next wait closes the link inside with work pending, so that the peers see
// what a SIGKILL leaves. From then on nothing gets out or in; its own rank is told Unavailable.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allreduce/transport/link.h"

namespace lockstep {

class DyingLink final : public Link {
 public:
  DyingLink(std::unique_ptr<Link> inner, int sends_left)
      : inner_(std::move(inner)),
        rank_(inner_->rank()),
        world_size_(inner_->world_size()),
        channels_(inner_->channels()),
        epoch_(inner_->epoch()),
        peers_(static_cast<size_t>(world_size_)),
        sends_left_(sends_left) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  int channels() const override { return channels_; }
  int64_t epoch() const override { return epoch_; }
  std::string name() const override { return "dying"; }
  Traffic traffic() const override { return {}; }
  absl::Status abort_status() const override { return absl::OkStatus(); }
  const std::vector<PeerState>& peers() const override { return peers_; }

  void PostSend(SendRequest* request) override {
    --sends_left_;
    inner_->PostSend(request);
  }
  void PostRecv(RecvRequest* request) override { inner_->PostRecv(request); }
  absl::Status Progress(int64_t deadline_ns) override {
    if (sends_left_ > 0) return inner_->Progress(deadline_ns);
    inner_.reset();
    return absl::UnavailableError("killed");
  }
  void Cancel() override {
    if (inner_ != nullptr) inner_->Cancel();
  }
  void SendReport(std::span<const std::byte> /*report*/) override {}
  absl::Status AwaitReports(int64_t /*deadline_ns*/) override {
    return absl::UnavailableError("killed");
  }

 private:
  std::unique_ptr<Link> inner_;
  const int rank_;
  const int world_size_;
  const int channels_;
  const int64_t epoch_;
  const std::vector<PeerState> peers_;
  int sends_left_;
};

}  // namespace lockstep
