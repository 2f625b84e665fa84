// The part of Membership that goes on after a loss: membership.h.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "experiments/coordinator/membership.h"

namespace lockstep {
namespace {

// A step that breaks one group after the other would go on breaking them.
constexpr int kRebuildsOfStepMax = 8;

}  // namespace

// The loss of a `role` of a group that has begun is no failure of the run.
bool Membership::Rebuilds(Role role) const {
  if (on_loss_ == AllReduceSync::STOP || role != WORKER || !go_sent_) return false;
  return phase_ == Phase::kRunning || phase_ == Phase::kConnecting || phase_ == Phase::kRebuilding;
}

bool Membership::AwaitsReplacement(const MemberId& id) const {
  return phase_ == Phase::kRebuilding && on_loss_ == AllReduceSync::REPLACE && id.role == WORKER &&
         !members_.contains(id);
}

void Membership::Lose(Members::iterator member, const absl::Status& status, int64_t now_ns,
                      std::vector<Effect>* effects) {
  const MemberId id = member->first;
  Failure failure{.member = id, .status = status, .step = StepOf(member->second), .lost = true};
  if (!Rebuilds(id.role)) {
    member->second.gone = true;
    Fail(std::move(failure), now_ns);
    return;
  }
  const std::string how = absl::StrCat(status.message());
  Fence(member->second, absl::StrCat(id.ToString(), " ", how), effects);
  members_.erase(member);
  BreakGroup(std::move(failure), now_ns, effects);
  if (on_loss_ == AllReduceSync::REPLACE) Replace(id, how, now_ns, effects);
  Regroup(now_ns, effects);
}

// It may not be dead: a frozen one that wakes up must learn that its place is taken.
void Membership::Fence(const MemberState& state, const std::string& why,
                       std::vector<Effect>* effects) {
  if (state.join.pid() != 0) lost_pids_.insert(state.join.pid());
  Command command;
  command.mutable_stop()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  command.mutable_stop()->set_reason(absl::StrCat(why, "; the run goes on without this process"));
  effects->push_back(Effect::Send(state.session, command));
  effects->push_back(Effect::Close(state.session));
}

void Membership::Replace(const MemberId& id, const std::string& how, int64_t now_ns,
                         std::vector<Effect>* effects) {
  if (rebuild_->MayReplace(id)) {
    effects->push_back(Effect::Spawn(id));
  } else {
    GiveUp(absl::StrCat("every replacement of ", id.ToString(),
                        " was lost before its group stood, the last one: ", how),
           now_ns);
  }
}

void Membership::OnBroken(Members::iterator member, const Broken& broken, int64_t now_ns,
                          std::vector<Effect>* effects) {
  MemberState& state = member->second;
  Failure failure{
      .member = member->first,
      .status = absl::Status(static_cast<absl::StatusCode>(broken.code()), broken.message()),
      .step = broken.step() + 1,
      .consequence = true,
      .blamed = {broken.blamed().begin(), broken.blamed().end()}};
  if (!Rebuilds(member->first.role)) {
    Fail(std::move(failure), now_ns);
    return;
  }
  if (broken.epoch() != epoch_ || state.broken) return;
  state.broken = true;
  state.step = broken.step();
  state.join.set_endpoint(broken.endpoint());
  BreakGroup(std::move(failure), now_ns, effects);
  Regroup(now_ns, effects);
}

// From the first sign on, everybody in the group is asked to leave it.
void Membership::BreakGroup(Failure cause, int64_t now_ns, std::vector<Effect>* effects) {
  if (!rebuild_.has_value()) rebuild_.emplace(now_ns);
  rebuild_->Add(std::move(cause));
  if (phase_ == Phase::kRebuilding) return;
  phase_ = Phase::kRebuilding;
  phase_since_ns_ = now_ns;
  Command command;
  command.mutable_lost()->set_epoch(epoch_);
  command.mutable_lost()->set_reason(rebuild_->Cause());
  SendAll(command, effects);
}

void Membership::Regroup(int64_t now_ns, std::vector<Effect>* effects) {
  if (phase_ != Phase::kRebuilding) return;
  if (Source() == members_.end() &&
      std::all_of(members_.begin(), members_.end(),
                  [](const auto& member) { return member.second.broken; })) {
    GiveUp("no worker is left that holds the state", now_ns);
    return;
  }
  if (!Unready().empty()) return;
  const int64_t step = Source()->second.step;
  rebuilds_of_step_ = step == rebuilt_step_ ? rebuilds_of_step_ + 1 : 1;
  rebuilt_step_ = step;
  if (rebuilds_of_step_ > kRebuildsOfStepMax) {
    GiveUp(absl::StrCat("step ", step + 1, " broke ", kRebuildsOfStepMax, " groups in a row"),
           now_ns);
    return;
  }
  ++epoch_;
  StartGroup(now_ns, effects);
}

// Of the workers that hold a state, the one that is furthest; of these the first.
Membership::Members::const_iterator Membership::Source() const {
  auto source = members_.end();
  for (auto member = members_.begin(); member != members_.end(); ++member) {
    if (member->first.role != WORKER || member->second.step == kNoState) continue;
    if (source == members_.end() || member->second.step > source->second.step) source = member;
  }
  return source;
}

// Who keeps the next group waiting; empty: nobody.
std::string Membership::Unready() const {
  std::vector<std::string> unready;
  for (const auto& [id, state] : members_) {
    if (!state.broken) unready.push_back(absl::StrCat(id.ToString(), " to leave the dead group"));
  }
  if (on_loss_ == AllReduceSync::REPLACE) {
    for (const MemberId& id : Declared()) {
      if (AwaitsReplacement(id)) {
        unready.push_back(absl::StrCat("the replacement of ", id.ToString()));
      }
    }
  }
  return absl::StrJoin(unready, ", ");
}

// Go has been sent.
void Membership::GroupStands(int64_t now_ns) {
  for (auto& [id, state] : members_) state.step = std::max(state.step, rebuilt_step_);
  const double elapsed_s =
      static_cast<double>(now_ns - rebuild_->since_ns()) / static_cast<double>(kNsPerSecond);
  const bool over = rebuilt_step_ >= config_.run.experiment().train().steps();
  const std::string became = absl::StrFormat(
      "rebuilt with %d workers in %.2f s, %s", members_.size(), elapsed_s,
      over ? "all steps are done" : absl::StrCat("goes on with step ", rebuilt_step_ + 1));
  untold_.push_back({.rebuild = *std::move(rebuild_), .became = became, .since_ns = now_ns});
  rebuild_.reset();
}

void Membership::TellOfRebuilds(int64_t now_ns, bool last, std::vector<Effect>* effects) {
  while (!untold_.empty()) {
    const Rebuilding& first = untold_.front();
    const bool waits = first.rebuild.Unexplained() &&
                       (now_ns - first.since_ns) / kNsPerMs < config_.limits.settle_ms;
    if (waits && !last) return;
    effects->push_back(Effect::Line(absl::StrCat(first.rebuild.Cause(), "; ", first.became)));
    untold_.erase(untold_.begin());
  }
}

void Membership::CheckRebuild(int64_t now_ns, std::vector<Effect>* effects) {
  if (!rebuild_.has_value() || (phase_ != Phase::kRebuilding && phase_ != Phase::kConnecting)) {
    return;
  }
  const Limits& limits = config_.limits;
  const int64_t elapsed_ms = (now_ns - rebuild_->since_ns()) / kNsPerMs;
  if (elapsed_ms >= limits.rebuild_timeout_ms) {
    const std::string missing =
        phase_ == Phase::kRebuilding ? Unready() : Missing(&MemberState::connected);
    GiveUp(absl::StrCat("after ", elapsed_ms, " ms (rebuild_timeout_ms ", limits.rebuild_timeout_ms,
                        ") still waiting for ", missing),
           now_ns);
    return;
  }
  // Alive, but it doesn't come out of its group: it would be missing in the next one too. Half of
  // the time is left for a group without it.
  const int64_t answer_ms = std::min(limits.sync_timeout_ms, limits.rebuild_timeout_ms / 2);
  const int64_t asked_ms = (now_ns - phase_since_ns_) / kNsPerMs;
  if (phase_ != Phase::kRebuilding || asked_ms < answer_ms) return;
  std::vector<MemberId> stuck;
  for (const auto& [id, state] : members_) {
    if (!state.broken) stuck.push_back(id);
  }
  for (const MemberId& id : stuck) {
    const auto member = members_.find(id);
    if (member == members_.end()) continue;
    Lose(member,
         absl::UnavailableError(
             absl::StrCat("did not leave its dead group within ", answer_ms, " ms of being asked")),
         now_ns, effects);
  }
}

void Membership::GiveUp(const std::string& why, int64_t now_ns) {
  std::vector<Failure> failures = rebuild_->GiveUp(Declared(), why);
  rebuild_.reset();
  phase_ = Phase::kFailing;
  phase_since_ns_ = now_ns;
  failures_ = std::move(failures);
}

}  // namespace lockstep
