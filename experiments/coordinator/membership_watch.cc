// The part of Membership that time moves: leases, deadlines, beats. membership.h.
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "experiments/coordinator/membership.h"

namespace lockstep {

std::vector<Effect> Membership::OnTick(int64_t now_ns) {
  std::vector<Effect> effects;
  if (phase_ == Phase::kStopping) return effects;
  CheckLeases(now_ns, &effects);
  CheckDeadlines(now_ns, &effects);
  CheckReplacements(now_ns, &effects);
  (void)ChangeAsPlanned(now_ns, &effects);
  CheckRebuild(now_ns, &effects);
  TellOfRebuilds(now_ns, /*last=*/false, &effects);
  Beats(now_ns, &effects);
  return effects;
}

void Membership::CheckDeadlines(int64_t now_ns, std::vector<Effect>* effects) {
  const int64_t elapsed_ms = (now_ns - phase_since_ns_) / kNsPerMs;
  if (phase_ == Phase::kJoining) {
    if (elapsed_ms >= config_.limits.join_timeout_ms) {
      Stop(absl::DeadlineExceededError(absl::StrCat(WaitingLine(), " after ", elapsed_ms,
                                                    " ms (join_timeout_ms ",
                                                    config_.limits.join_timeout_ms, ")")),
           effects);
    } else if ((now_ns - last_line_ns_) / kNsPerMs >= config_.limits.waiting_line_ms) {
      last_line_ns_ = now_ns;
      effects->push_back(Effect::Line(WaitingLine()));
    }
  } else if (phase_ == Phase::kConnecting && !rebuild_.has_value() &&
             elapsed_ms >= ConnectingMsMax()) {
    // Members end their own waits at connect_timeout_ms with a better message; this is the
    // backstop.
    Stop(absl::DeadlineExceededError(absl::StrCat("not connected after ", elapsed_ms,
                                                  " ms: ", Missing(&MemberState::connected))),
         effects);
  } else if (phase_ == Phase::kFailing && elapsed_ms >= config_.limits.settle_ms) {
    PutFirstCauseFirst(Declared(), &failures_);
    const Failure& first = failures_.front();
    const std::string step = absl::StrCat("step ", first.step, ": ");
    Stop(absl::Status(first.status.code(),
                      absl::StrCat(first.member.ToString(), ", ", step,
                                   absl::StripPrefix(first.status.message(), step))),
         effects);
  }
}

void Membership::CheckLeases(int64_t now_ns, std::vector<Effect>* effects) {
  std::vector<MemberId> silent;
  for (const auto& [id, state] : members_) {
    const int64_t silence_ms = (now_ns - state.heard_ns) / kNsPerMs;
    if (!state.gone && silence_ms >= config_.limits.lease_ms) silent.push_back(id);
  }
  for (const MemberId& id : silent) {
    const auto member = members_.find(id);
    const int64_t silence_ms = (now_ns - member->second.heard_ns) / kNsPerMs;
    Lose(member,
         absl::UnavailableError(absl::StrCat("was lost: silent for ", silence_ms, " ms (lease_ms ",
                                             config_.limits.lease_ms, ")")),
         now_ns, effects);
  }
}

void Membership::Beats(int64_t now_ns, std::vector<Effect>* effects) {
  if ((now_ns - last_beat_ns_) / kNsPerMs < config_.limits.heartbeat_ms) return;
  last_beat_ns_ = now_ns;
  Command command;
  command.mutable_beat()->set_step(step());
  SendAll(command, effects);
}

std::string Membership::WaitingLine() const {
  std::vector<std::string> present;
  std::vector<std::string> missing;
  for (const MemberId& id : Awaited()) {
    (members_.contains(id) ? present : missing).push_back(id.ToString());
  }
  return absl::StrCat("waiting for ", absl::StrJoin(missing, ", "),
                      "; present: ", present.empty() ? "nobody" : absl::StrJoin(present, ", "));
}

std::string Membership::Missing(bool MemberState::*reached) const {
  std::vector<std::string> missing;
  for (const auto& [id, state] : members_) {
    if (!state.broken && !(state.*reached)) missing.push_back(id.ToString());
  }
  return absl::StrJoin(missing, ", ");
}

}  // namespace lockstep
