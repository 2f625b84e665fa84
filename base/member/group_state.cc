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
      if (command.stop().code() != 0) {
        failure_ = absl::Status(static_cast<absl::StatusCode>(command.stop().code()),
                                absl::StrCat("the run was stopped: ", command.stop().reason()));
      }
      return News::kEnded;
    default:
      return News::kNothing;  // Beat: being heard is its meaning
  }
}

void GroupState::Break() {
  broken_ = true;
  go_ = false;
}

bool GroupState::MayRebuild(const absl::Status& status) const {
  if (stopped_ || !failure_.ok() || !start_.has_value() || !ran_) return false;
  if (OnLossOf(start_->run()) == AllReduceSync::STOP) return false;
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

AllReduceSync::OnLoss OnLossOf(const RunConfig& run) {
  return run.variant().all_reduce().on_loss();
}

}  // namespace lockstep
