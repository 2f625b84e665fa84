// The part of Membership that changes the group because the fault plan says so: membership.h.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "experiments/coordinator/membership.h"

namespace lockstep {

std::vector<MemberId> Membership::Awaited() const {
  std::vector<MemberId> awaited = Declared();
  awaited.erase(std::remove_if(awaited.begin(), awaited.end(),
                               [this](const MemberId& id) { return planned_.JoinsLater(id); }),
                awaited.end());
  return awaited;
}

void Membership::OnDeparting(Members::iterator member, const Departing& departing, int64_t now_ns,
                             std::vector<Effect>* effects) {
  // Otherwise the run is about to stop, for this one too.
  if (!Rebuilds(member->first.role)) return;
  member->second.step = departing.step();
  Release(member, "leaves", now_ns, effects);
  Regroup(now_ns, effects);
}

void Membership::Release(Members::iterator member, const std::string& what, int64_t now_ns,
                         std::vector<Effect>* effects) {
  const auto& [id, state] = *member;
  if (state.join.pid() != 0) left_pids_.insert(state.join.pid());
  Command command;
  command.mutable_stop()->set_left(true);
  command.mutable_stop()->set_reason(absl::StrCat(id.ToString(), " ", what, " as planned"));
  effects->push_back(Effect::Send(state.session, command));
  effects->push_back(Effect::Close(state.session));
  if (!rebuild_.has_value()) rebuild_.emplace(now_ns);
  rebuild_->Leave(id, what);
  if (id.role == SERVER) shards_->Lose(id.index);
  members_.erase(member);
  Dissolve(now_ns, effects);
}

void Membership::OnLeftExit(const MemberExit& exit, int64_t now_ns) {
  if (exit.clean) return;
  Fail({.member = exit.member,
        .status = absl::InternalError(absl::StrCat(exit.how, ", though it had left as planned"))},
       now_ns);
}

bool Membership::ChangeAsPlanned(int64_t now_ns, std::vector<Effect>* effects) {
  if (phase_ != Phase::kRunning) return false;
  bool changes = false;
  for (const MemberId& id : planned_.TakeJoins(step())) {
    if (members_.contains(id)) continue;
    Replace(id, "is planned to join", now_ns, effects);
    changes = true;
  }
  return RestartAsPlanned(now_ns, effects) || changes;
}

// A server goes only while every shard has all its copies, so that none is lost with it.
bool Membership::RestartAsPlanned(int64_t now_ns, std::vector<Effect>* effects) {
  const int servers = config_.run.servers();
  const std::optional<MemberId> next = planned_.RestartDue(step(), servers);
  if (!next.has_value() || !Rebuilds(SERVER)) return false;
  for (int index = 0; index < servers; ++index) {
    const MemberId id = {SERVER, index};
    if (members_.contains(id) || replacements_.Awaits(id)) continue;
    effects->push_back(Effect::Line(
        absl::StrCat(next->ToString(), " is not restarted, nor are those after it: ", id.ToString(),
                     " is not replaced any more")));
    planned_.GiveUpRestarts();
    return false;
  }
  if (!shards_->Complete()) return true;
  const auto member = members_.find(*next);
  if (member == members_.end() || member->second.broken) return true;
  planned_.Restarted(servers);
  Release(member, "restarts", now_ns, effects);
  Replace(*next, "restarts as planned", now_ns, effects);
  Regroup(now_ns, effects);
  return true;
}

}  // namespace lockstep
