// late_link.h: a link that takes sends as late as it can, for tests: only when nothing else is left
// to do. What is overwritten before its send is through then shows.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allreduce/transport/link.h"

namespace lockstep {

class LateLink final : public Link {
 public:
  explicit LateLink(std::unique_ptr<Link> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  int channels() const override { return inner_->channels(); }
  int64_t epoch() const override { return inner_->epoch(); }
  std::string name() const override { return inner_->name(); }
  const std::vector<PeerState>& peers() const override { return inner_->peers(); }
  absl::Status abort_status() const override { return inner_->abort_status(); }
  Traffic traffic() const override { return inner_->traffic(); }
  void SendReport(std::span<const std::byte> report) override { inner_->SendReport(report); }
  absl::Status AwaitReports(int64_t deadline_ns) override {
    return inner_->AwaitReports(deadline_ns);
  }

  void PostSend(SendRequest* request) override {
    request->done = false;
    held_.push_back(request);
  }
  void PostRecv(RecvRequest* request) override { inner_->PostRecv(request); }
  void Cancel() override {
    held_.clear();
    inner_->Cancel();
  }
  absl::Status Progress(int64_t deadline_ns) override {
    if (held_.empty()) return inner_->Progress(deadline_ns);
    const Traffic before = traffic();
    absl::Status status = inner_->Progress(/*deadline_ns=*/0);
    const bool moved = traffic().received_messages != before.received_messages ||
                       traffic().sent_messages != before.sent_messages;
    if (moved || !absl::IsDeadlineExceeded(status)) {
      return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
    }
    inner_->PostSend(held_.front());
    held_.pop_front();
    return inner_->Progress(deadline_ns);
  }

 private:
  const std::unique_ptr<Link> inner_;
  std::deque<SendRequest*> held_;
};

}  // namespace lockstep
