// The part of Membership that goes on after a loss: membership.h.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/member/process.h"
#include "experiments/coordinator/membership.h"

namespace lockstep {
namespace {

// A step that breaks one group after the other would go on breaking them.
constexpr int kRebuildsOfStepMax = 8;

}  // namespace

bool Membership::MayRegroup() const {
  if (!go_sent_ || !rule_.rebuilds()) return false;
  return phase_ == Phase::kRunning || phase_ == Phase::kConnecting || phase_ == Phase::kRebuilding;
}

// The loss of a `role` of a group that has begun is no failure of the run.
bool Membership::Rebuilds(Role role) const {
  return MayRegroup() &&
         (role == WORKER ? rule_.worker != WorkerLoss::kStop : rule_.server != Ps::NONE);
}

bool Membership::IsVacant(const MemberId& id) const {
  return Rebuilds(id.role) && !members_.contains(id);
}

bool Membership::IsNeeded(const MemberId& id) const {
  if (id.role == SERVER) return shards_.has_value() && shards_->MustRestore(Present(SERVER));
  if (rule_.worker != WorkerLoss::kReplace) return false;
  const bool alone = shards_.has_value() && AppliesAlone(config_.run.variant().ps());
  return !alone || Present(WORKER).empty();
}

std::set<int> Membership::Present(Role role) const {
  std::set<int> present;
  for (const auto& [id, state] : members_) {
    if (id.role == role) present.insert(id.index);
  }
  return present;
}

bool Membership::AllHaveLeft() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member.second.broken; });
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
  const bool in_group = !member->second.broken || phase_ == Phase::kRebuilding;
  Fence(member->second, absl::StrCat(id.ToString(), " ", how), effects);
  members_.erase(member);
  if (id.role == SERVER) shards_->Lose(id.index);
  if (in_group) BreakGroup(std::move(failure), now_ns, effects);
  if (id.role == SERVER || rule_.worker == WorkerLoss::kReplace) Replace(id, how, now_ns, effects);
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
  if (replacements_.Ask(id, now_ns, how)) {
    effects->push_back(Effect::Spawn(id));
  } else {
    effects->push_back(
        Effect::Line(absl::StrCat(id.ToString(), " is not replaced any more: ", how)));
  }
}

void Membership::OnBroken(Members::iterator member, const Broken& broken, int64_t now_ns,
                          std::vector<Effect>* effects) {
  const auto& [id, state] = *member;
  const auto code = static_cast<absl::StatusCode>(broken.code());
  Failure failure{.member = id,
                  .status = absl::Status(code, broken.message()),
                  .step = broken.step() + 1,
                  .consequence = true,
                  .blamed = {broken.blamed().begin(), broken.blamed().end()}};
  if (!MayRegroup()) {
    Fail(std::move(failure), now_ns);
    return;
  }
  if (broken.epoch() != epoch_ || state.broken) return;
  member->second.broken = true;
  member->second.step = broken.step();
  member->second.join.set_endpoint(broken.endpoint());
  if (id.role == SERVER && shards_.has_value()) {
    shards_->Report(id.index, broken);
    if (code == absl::StatusCode::kDataLoss && shards_->restoring()) {
      effects->push_back(Effect::Line(absl::StrCat("the snapshot of step ", *shards_->restoring(),
                                                   " can't be restored: ", id.ToString(),
                                                   " says: ", broken.message())));
      shards_->Spoil();
    }
  }
  BreakGroup(std::move(failure), now_ns, effects);
  Regroup(now_ns, effects);
}

void Membership::BreakGroup(Failure cause, int64_t now_ns, std::vector<Effect>* effects) {
  if (!rebuild_.has_value()) rebuild_.emplace(now_ns);
  rebuild_->Add(std::move(cause));
  Dissolve(now_ns, effects);
}

void Membership::TakeIn(int64_t now_ns, std::vector<Effect>* effects) {
  if (phase_ != Phase::kRunning) return;
  for (const auto& [id, state] : members_) {
    if (!state.broken) continue;
    if (!rebuild_.has_value()) rebuild_.emplace(now_ns);
    rebuild_->Join(id);
  }
  if (rebuild_.has_value()) Dissolve(now_ns, effects);
}

void Membership::Dissolve(int64_t now_ns, std::vector<Effect>* effects) {
  if (phase_ == Phase::kRebuilding) return;
  phase_ = Phase::kRebuilding;
  phase_since_ns_ = now_ns;
  Command command;
  command.mutable_lost()->set_epoch(epoch_);
  command.mutable_lost()->set_reason(rebuild_->Cause());
  SendGroup(command, effects);
}

void Membership::Regroup(int64_t now_ns, std::vector<Effect>* effects) {
  if (phase_ != Phase::kRebuilding) return;
  if (const std::string why = Hopeless(); !why.empty()) {
    GiveUp(why, now_ns);
    return;
  }
  if (!Unready().empty() || WaitsForMore(now_ns)) return;
  const int64_t finished = shards_.has_value() ? step() : Source()->second.step;
  if (!rebuild_->none_lost()) {
    rebuilds_of_step_ = finished == rebuilt_step_ ? rebuilds_of_step_ + 1 : 1;
  }
  rebuilt_step_ = finished;
  if (rebuilds_of_step_ > kRebuildsOfStepMax) {
    GiveUp(absl::StrCat("step ", finished + 1, " broke ", kRebuildsOfStepMax, " groups in a row"),
           now_ns);
    return;
  }
  ++epoch_;
  StartGroup(now_ns, effects);
}

std::string Membership::Hopeless() const {
  if (!AllHaveLeft()) return "";
  if (shards_.has_value()) {
    std::string why = shards_->Hopeless(Present(SERVER), step());
    if (!why.empty()) return why;
  } else if (Source() == members_.end()) {
    return "no worker is left that holds the state";
  }
  for (const MemberId& id : Declared()) {
    if (members_.contains(id) || !IsNeeded(id) || replacements_.Awaits(id)) continue;
    return absl::StrCat("every replacement of ", id.ToString(),
                        " was lost before its group stood, the last one: ", replacements_.how(id));
  }
  const bool none = Present(WORKER).empty() && rule_.worker != WorkerLoss::kReplace;
  return none ? "no worker is left" : "";
}

// Starting is quick, so that one epoch may do for the loss and the replacement.
bool Membership::WaitsForMore(int64_t now_ns) const {
  if ((now_ns - rebuild_->since_ns()) / kNsPerMs >= config_.limits.settle_ms) return false;
  const std::vector<MemberId> declared = Declared();
  return std::any_of(declared.begin(), declared.end(),
                     [this](const MemberId& id) { return replacements_.Awaits(id); });
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
  if (!unready.empty()) return absl::StrJoin(unready, ", ");
  for (const MemberId& id : Declared()) {
    if (!members_.contains(id) && IsNeeded(id)) {
      unready.push_back(absl::StrCat("the replacement of ", id.ToString()));
    }
  }
  return absl::StrJoin(unready, ", ");
}

// Go has been sent.
void Membership::GroupStands(int64_t now_ns) {
  const std::optional<int64_t> restored = shards_ ? shards_->restoring() : std::nullopt;
  if (restored.has_value()) rebuilt_step_ = *restored;
  for (auto& [id, state] : members_) {
    if (state.broken) continue;  // it joined too late for this group
    replacements_.Stood(id);
    state.step = restored.value_or(std::max(state.step, rebuilt_step_));
  }
  untold_.push_back({.rebuild = *rebuild_, .became = Became(now_ns), .since_ns = now_ns});
  if (shards_.has_value()) {
    shards_->Stand();
    if (!shards_->Complete() && !exposed_since_ns_.has_value()) {
      exposed_since_ns_ = rebuild_->since_ns();
      copied_bytes_ = 0;
    }
  }
  rebuild_.reset();
}

std::string Membership::Became(int64_t now_ns) const {
  const double elapsed_s =
      static_cast<double>(now_ns - rebuild_->since_ns()) / static_cast<double>(kNsPerSecond);
  const size_t workers = Present(WORKER).size();
  if (shards_.has_value()) {
    const std::string change = change_.empty() ? "training goes on" : change_;
    const bool all = workers == static_cast<size_t>(config_.run.world_size());
    const std::string with = all ? "" : absl::StrFormat(" with %d workers", workers);
    return absl::StrFormat("%s%s, in %.2f s", change, with, elapsed_s);
  }
  const bool over = rebuilt_step_ >= config_.run.experiment().train().steps();
  return absl::StrFormat(
      "rebuilt with %d workers in %.2f s, %s", workers, elapsed_s,
      over ? "all steps are done" : absl::StrCat("goes on with step ", rebuilt_step_ + 1));
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
  Regroup(now_ns, effects);  // a replacement may have been waited for long enough
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

// The group runs without them.
void Membership::CheckReplacements(int64_t now_ns, std::vector<Effect>* effects) {
  if (phase_ != Phase::kRunning) return;
  const int64_t limit_ms = config_.limits.rebuild_timeout_ms;
  for (const MemberId& id : replacements_.GiveUpLate(now_ns, limit_ms)) {
    effects->push_back(
        Effect::Line(absl::StrCat(id.ToString(), " is not replaced: nobody joined within ",
                                  limit_ms, " ms (rebuild_timeout_ms)")));
  }
  OnDone(now_ns, effects);
}

void Membership::GiveUp(const std::string& why, int64_t now_ns) {
  std::vector<Failure> failures = rebuild_->GiveUp(Declared(), why);
  rebuild_.reset();
  phase_ = Phase::kFailing;
  phase_since_ns_ = now_ns;
  failures_ = std::move(failures);
}

}  // namespace lockstep
