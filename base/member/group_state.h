// group_state.h: what a member knows of its groups from the coordinator's commands, as a state
// machine without I/O. A group has an epoch: Start, links and state handed over, Go, steps. Where
// the run rebuilds, a group that dies is followed by one of a later epoch: the member reports
// Broken, and from then on only a Start of a later epoch moves it on. Commands come first in, first
// out. Errors: Take keeps a refusal and a stop with a code as failure(). Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

inline constexpr int64_t kFirstEpoch = 1;  // later ones are those of rebuilt groups

class GroupState {
 public:
  // `coordinator`: its address, for errors.
  explicit GroupState(std::string coordinator) : coordinator_(std::move(coordinator)) {}

  enum class News : uint8_t {
    kNothing,
    kAccepted,
    kStarted,  // start() is a new group's
    kGo,
    kGroupDead,  // dead() says why
    kEnded,      // stopped() or failure()
  };
  News Take(const Command& command);
  // This member gives up the group of epoch() and reports it.
  void Break();
  // It sees that the group of `epoch` is dead. False: that is known, or that group is over.
  bool GiveUp(int64_t epoch, const absl::Status& cause);

  bool accepted() const { return accepted_; }
  // A group is there to connect to, or connected.
  bool started() const { return start_.has_value() && !broken_; }
  // REQUIRES: a Start has come.
  const Start& start() const { return *start_; }
  int64_t epoch() const { return start_.has_value() ? start_->epoch() : 0; }
  bool go() const { return go_; }
  // OK, or why the coordinator, or this member, holds the group of epoch() for dead.
  const absl::Status& dead() const { return dead_; }
  bool stopped() const { return stopped_; }
  // It was stopped alone: the run goes on without this member, as planned.
  bool left() const { return left_; }
  const absl::Status& failure() const { return failure_; }

  // Whether `status`, out of the group's links, exchange or waits, is one that ends the group but
  // not the run: somebody is gone or late, and the run goes on without the old group. A group that
  // never began is not rebuilt. A snapshot that can't be restored (DataLoss before Go) ends the
  // group that was to begin with it: another one follows that begins with an earlier one.
  bool MayRebuild(const absl::Status& status) const;

 private:
  const std::string coordinator_;
  bool accepted_ = false;
  bool broken_ = false;
  bool go_ = false;
  bool ran_ = false;  // some group of the run has begun
  bool stopped_ = false;
  bool left_ = false;
  std::optional<Start> start_;
  absl::Status dead_;
  absl::Status failure_;
};

// What follows the loss of a member of a group that has begun.
enum class WorkerLoss : uint8_t { kStop, kReplace, kShrink };
struct LossRule {
  WorkerLoss worker = WorkerLoss::kStop;
  Ps::Policy server = Ps::NONE;  // NONE: the run fails; else it is replaced

  bool rebuilds() const { return worker != WorkerLoss::kStop || server != Ps::NONE; }
};
// Of the run's variant.
LossRule LossRuleOf(const RunConfig& run);

}  // namespace lockstep
