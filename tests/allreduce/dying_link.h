// dying_link.h: a link whose process is killed in the middle of its work, for tests: after
// `sends_left` sends its next wait closes the link inside with work pending, so that the peers see
// what a SIGKILL leaves. From then on nothing gets out or in; its own rank is told Unavailable. In
// shared memory a wait stands for a send: whoever waits has just told its peers something.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "allreduce/transport/link.h"
#include "allreduce/transport/shared_window.h"

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
        sends_left_(sends_left) {
    if (inner_->window() != nullptr) window_ = std::make_unique<Window>(this);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  int channels() const override { return channels_; }
  int64_t epoch() const override { return epoch_; }
  std::string name() const override { return "dying"; }
  Traffic traffic() const override { return {}; }
  absl::Status abort_status() const override { return absl::OkStatus(); }
  const std::vector<PeerState>& peers() const override { return peers_; }

  SharedWindow* window() override { return window_.get(); }
  void PostSend(SendRequest* request) override {
    --sends_left_;
    inner_->PostSend(request);
  }
  void PostRecv(RecvRequest* request) override { inner_->PostRecv(request); }
  absl::Status Progress(int64_t deadline_ns) override {
    return Dies() ? absl::UnavailableError("killed") : inner_->Progress(deadline_ns);
  }
  void Cancel() override {
    if (inner_ != nullptr) inner_->Cancel();
  }
  void SendReport(std::span<const std::byte> /*report*/) override {}
  absl::Status AwaitReports(int64_t /*deadline_ns*/) override {
    return absl::UnavailableError("killed");
  }

 private:
  // The ranks of a test share one mapping, so what the dead one had mapped can still be read.
  class Window final : public SharedWindow {
   public:
    explicit Window(DyingLink* link) : link_(*link), areas_(inner().areas()) {}
    const std::vector<Area>& areas() const override { return areas_; }
    absl::Status CheckRoom(int64_t bytes) const override { return inner().CheckRoom(bytes); }
    absl::StatusOr<int64_t> ReserveArea(int64_t bytes) override {
      return inner().ReserveArea(bytes);
    }
    absl::Status MapArea(const std::vector<int64_t>& offsets, int64_t bytes) override {
      absl::Status status = inner().MapArea(offsets, bytes);
      areas_ = inner().areas();
      return status;
    }
    absl::Status Await(absl::FunctionRef<bool(int peer)> arrived, int64_t deadline_ns) override {
      --link_.sends_left_;
      return link_.Dies() ? absl::UnavailableError("killed") : inner().Await(arrived, deadline_ns);
    }
    void WakeAll() override { inner().WakeAll(); }
    void Count(const Traffic& traffic) override { inner().Count(traffic); }

   private:
    SharedWindow& inner() const { return *link_.inner_->window(); }

    DyingLink& link_;
    std::vector<Area> areas_;
  };

  bool Dies() {
    if (sends_left_ > 0) return false;
    inner_.reset();
    return true;
  }

  std::unique_ptr<Link> inner_;
  std::unique_ptr<Window> window_;
  const int rank_;
  const int world_size_;
  const int channels_;
  const int64_t epoch_;
  const std::vector<PeerState> peers_;
  int sends_left_;
};

}  // namespace lockstep
