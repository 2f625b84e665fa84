#include "base/member/group_state.h"

#include "absl/strings/str_cat.h"

namespace lockstep {

GroupState::News GroupState::Take(const Command& command) {
  switch (command.command_case()) {
    case Command::kAccepted:
      accepted_ = true;
      return News::kAccepted;
    case Command::kRefused:
      failure_ = absl::InvalidArgumentError(absl::StrCat(
          "refused by the coordinator at ", coordinator_, ": ", command.refused().reason()));
      return News::kEnded;
    case Command::kStart:
      if (command.start().epoch() <= epoch()) return News::kNothing;
      start_ = command.start();
      ran_ = ran_ || epoch() > kFirstEpoch;
      broken_ = false;
      go_ = false;
      dead_ = absl::OkStatus();
      return News::kStarted;
    case Command::kGo:
      if (broken_ || !dead_.ok()) return News::kNothing;
      go_ = true;
      ran_ = true;
      return News::kGo;
    case Command::kLost:
      if (broken_ || command.lost().epoch() != epoch()) return News::kNothing;
      dead_ = absl::AbortedError(
          absl::StrCat("the group of epoch ", epoch(), " is dead: ", command.lost().reason()));
      return News::kGroupDead;
    case Command::kStop:
      stopped_ = true;
      left_ = command.stop().left();
      if (command.stop().code() != 0) {
        failure_ = absl::Status(static_cast<absl::StatusCode>(command.stop().code()),
                                absl::StrCat("the run was stopped: ", command.stop().reason()));
      }
      return News::kEnded;
    default:
      return News::kNothing;  // Beat: being heard is its meaning
  }
}

bool GroupState::GiveUp(int64_t epoch, const absl::Status& cause) {
  if (broken_ || !dead_.ok() || epoch != this->epoch()) return false;
  dead_ = cause;
  return true;
}

void GroupState::Break() {
  broken_ = true;
  go_ = false;
}

bool GroupState::MayRebuild(const absl::Status& status) const {
  if (stopped_ || !failure_.ok() || !start_.has_value() || !ran_) return false;
  if (!LossRuleOf(start_->run()).rebuilds()) return false;
  if (absl::IsDataLoss(status)) return start_->restore() && !go_;
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

LossRule LossRuleOf(const RunConfig& run) {
  const Variant& variant = run.variant();
  LossRule rule;
  if (variant.has_ps()) {
    rule.server = variant.ps().policy();
    const Ps::OnWorkerLoss worker = variant.ps().on_worker_loss();
    if (worker == Ps::REPLACE) rule.worker = WorkerLoss::kReplace;
    if (worker == Ps::SHRINK) rule.worker = WorkerLoss::kShrink;
  } else {
    const AllReduceSync::OnLoss worker = variant.all_reduce().on_loss();
    if (worker == AllReduceSync::REPLACE) rule.worker = WorkerLoss::kReplace;
    if (worker == AllReduceSync::SHRINK) rule.worker = WorkerLoss::kShrink;
  }
  return rule;
}

}  // namespace lockstep
