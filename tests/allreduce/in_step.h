// in_step.h: all ranks of a schedule on executors in one thread, moved in turn: over the in-process
// link, perhaps one that takes sends late, the same run every time, and fast enough for thousands
// of cases. Groups are kept from call
// to call, so each call finds the sequence numbers, slots and scratch of the one before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allreduce/host/executor.h"
#include "base/abort.h"
#include "base/check.h"
#include "base/clock.h"
#include "tests/allreduce/group.h"
#include "tests/allreduce/late_link.h"

namespace lockstep {

inline std::vector<RankPart> PartsOf(const Schedule& schedule) {
  std::vector<RankPart> parts;
  for (const std::vector<Lane>& lanes : schedule.ranks) parts.push_back({schedule, lanes});
  return parts;
}

class InStep {
 public:
  explicit InStep(const Schedule& schedule, int channels,
                  Transport transport = Transport::kInProcess, bool late_sends = false)
      : parts_(PartsOf(schedule)),
        idle_rounds_max_(transport == Transport::kInProcess ? 2 : 10'000),
        links_(MakeLinks(transport, schedule.world_size, channels, limits_, clock_, abort_)) {
    for (auto& link : links_) {
      if (late_sends) link = std::make_unique<LateLink>(std::move(link));
      executors_.emplace_back(link.get(), clock_);
    }
  }

  // `data` is [rank]; the rest of `call` is the same on every rank.
  absl::Status Run(ExecuteCall call, const std::vector<std::byte*>& data) {
    call.fingerprint = ++calls_;
    std::vector<uint8_t> through(links_.size(), 0);
    for (size_t rank = 0; rank < links_.size(); ++rank) {
      call.data = data[rank];
      const absl::Status status = executors_[rank].Begin(parts_[rank], call);
      if (!status.ok()) return status;
    }
    size_t left = links_.size();
    while (left > 0) {
      const int64_t before = Messages();
      const size_t left_before = left;
      for (size_t rank = 0; rank < links_.size(); ++rank) {
        if (through[rank] != 0) continue;
        // The deadline is there already: the link moves what it can and says that it must stop.
        const absl::Status status = links_[rank]->Progress(/*deadline_ns=*/0);
        if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
        if (!executors_[rank].Advance()) continue;
        through[rank] = 1;
        --left;
      }
      idle_ = Messages() == before && left == left_before ? idle_ + 1 : 0;
      if (idle_ > idle_rounds_max_) return absl::InternalError(absl::StrCat(left, " ranks stand"));
    }
    return absl::OkStatus();
  }

  Traffic traffic(int rank) const { return links_[static_cast<size_t>(rank)]->traffic(); }

 private:
  int64_t Messages() const {
    int64_t messages = 0;
    for (const auto& link : links_) {
      messages += link->traffic().sent_messages + link->traffic().received_messages;
    }
    return messages;
  }

  Limits limits_;
  ManualClock clock_;
  Abort abort_;
  const std::vector<RankPart> parts_;
  const int idle_rounds_max_;  // a round may only post, and a socket may take its time
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<HostExecutor> executors_;
  uint64_t calls_ = 0;
  int idle_ = 0;
};

}  // namespace lockstep
