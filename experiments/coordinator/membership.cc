#include "experiments/coordinator/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/member/device_choice.h"
#include "base/member/member.h"

namespace lockstep {

Membership::Membership(MembershipConfig config, int64_t now_ns)
    : config_(std::move(config)),
      rule_(LossRuleOf(config_.run)),
      epoch_(config_.epoch),
      planned_(config_.run.experiment()),
      phase_since_ns_(now_ns),
      last_line_ns_(now_ns),
      last_beat_ns_(now_ns) {
  if (config_.run.variant().has_ps()) shards_.emplace(config_.run);
}

std::vector<Effect> Membership::OnEvent(int64_t session, const MemberEvent& event, int64_t now_ns) {
  std::vector<Effect> effects;
  if (phase_ == Phase::kJoining) CheckDeadlines(now_ns, &effects);
  if (event.event_case() == MemberEvent::kJoin) {
    OnJoin(session, event.join(), now_ns, &effects);
    return effects;
  }
  const auto member = Find(session);
  if (member == members_.end()) {
    effects.push_back(Effect::Close(session));
    return effects;
  }
  MemberState& state = member->second;
  state.heard_ns = now_ns;
  switch (event.event_case()) {
    case MemberEvent::kConnected:
      state.connected = true;
      OnConnected(&effects, now_ns);
      break;
    case MemberEvent::kBeat:
      // One that waits for its group has said what it holds, or holds nothing.
      if (!state.broken && state.step != kNoState) {
        state.step = std::max(state.step, event.beat().step());
      }
      break;
    case MemberEvent::kDone:
      state.done = true;
      state.step = event.done().step();
      OnDone(now_ns, &effects);
      break;
    case MemberEvent::kSaved:
      OnSaved(state, event.saved(), &effects);
      break;
    case MemberEvent::kCaughtUp:
      OnCaughtUp(event.caught_up(), now_ns, &effects);
      break;
    case MemberEvent::kDeparting:
      OnDeparting(member, event.departing(), now_ns, &effects);
      break;
    case MemberEvent::kBroken:
      OnBroken(member, event.broken(), now_ns, &effects);
      break;
    case MemberEvent::kFailed:
      state.gone = true;
      Fail({.member = member->first,
            .status = absl::Status(static_cast<absl::StatusCode>(event.failed().code()),
                                   event.failed().message()),
            .step = event.failed().step(),
            .consequence = event.failed().consequence(),
            .blamed = {event.failed().blamed().begin(), event.failed().blamed().end()}},
           now_ns);
      break;
    default:
      break;
  }
  return effects;
}

void Membership::OnJoin(int64_t session, const Join& join, int64_t now_ns,
                        std::vector<Effect>* effects) {
  Command answer;
  const std::string refusal = RefusalOf(join);
  if (!refusal.empty()) {
    answer.mutable_refused()->set_reason(refusal);
    effects->push_back(Effect::Send(session, answer));
    effects->push_back(Effect::Close(session));
    effects->push_back(Effect::Line(
        absl::StrCat("refused ", MemberId{join.role(), join.index()}.ToString(), ": ", refusal)));
    return;
  }
  const MemberId id{join.role(), join.index()};
  MemberState& state = members_[id];
  state = {.session = session, .join = join, .heard_ns = now_ns};
  ++incarnations_[id];
  *answer.mutable_accepted()->mutable_limits() = config_.run.experiment().limits();
  effects->push_back(Effect::Send(session, answer));
  if (phase_ == Phase::kJoining) {
    if (members_.size() == Awaited().size()) StartGroup(now_ns, effects);
    return;
  }
  state.broken = true;
  state.step = kNoState;
  replacements_.Joined(id);
  TakeIn(now_ns, effects);
  Regroup(now_ns, effects);
}

void Membership::StartGroup(int64_t now_ns, std::vector<Effect>* effects) {
  phase_ = Phase::kConnecting;
  phase_since_ns_ = now_ns;
  Command command;
  Start* start = command.mutable_start();
  start->set_epoch(epoch_);
  *start->mutable_run() = config_.run;
  start->set_none_lost(rebuild_.has_value() && rebuild_->none_lost());
  int workers = 0;
  for (auto& [id, state] : members_) {
    MemberInfo* info = start->add_member();
    info->set_role(id.role);
    info->set_index(id.index);
    info->set_endpoint(state.join.endpoint());
    info->set_host(state.join.host());
    info->set_incarnation(incarnations_[id]);
    state.broken = false;
    state.connected = false;
    state.done = false;
    workers += id.role == WORKER ? 1 : 0;
  }
  if (shards_.has_value()) {
    change_ = shards_->Begin(Present(SERVER), start);
    if (shards_->restoring()) effects->push_back(Effect::Manifest(shards_->Manifest()));
  } else {
    start->mutable_run()->set_world_size(workers);
    if (const auto source = Source(); source != members_.end()) {
      start->set_source(source->first.index);
      start->set_step(source->second.step);
    }
  }
  SendAll(command, effects);
}

std::string Membership::RefusalOf(const Join& join) const {
  const MemberId id{join.role(), join.index()};
  const int declared = id.role == WORKER ? config_.run.world_size() : config_.run.servers();
  if (join.token() != config_.token) return "wrong token; start members with the run's --token";
  if (join.protocol() != kProtocol) {
    return absl::StrCat("protocol version ", join.protocol(), ", the coordinator has ", kProtocol,
                        "; use the same build everywhere");
  }
  if (join.build() != config_.build) {
    return absl::StrCat("build '", join.build(), "', the coordinator has '", config_.build,
                        "'; use the same build everywhere");
  }
  if (id.role != WORKER && id.role != SERVER) return "no role given";
  if (id.index < 0 || id.index >= declared) {
    return absl::StrCat(id.ToString(), " is one too many: the run declares ",
                        config_.run.world_size(), " workers and ", config_.run.servers(),
                        " servers");
  }
  if (id.role == WORKER && join.world_size() != 0 &&
      join.world_size() != config_.run.world_size()) {
    return absl::StrCat("its launcher says world size ", join.world_size(), ", the run says ",
                        config_.run.world_size());
  }
  if (id.role == WORKER) {
    std::string device =
        DeviceRefusal(config_.run.experiment(), {.device = join.device(), .math = join.math()});
    if (!device.empty()) return device;
  }
  if (members_.contains(id)) return absl::StrCat(id.ToString(), " has joined already");
  if (ended_.contains({id, join.pid()})) return "its process has ended";  // what it said was late
  if (phase_ == Phase::kJoining && planned_.JoinsLater(id)) {
    return absl::StrCat(id.ToString(), " is planned to join later");
  }
  if (phase_ != Phase::kJoining && !IsVacant(id)) return "the run has started already";
  return "";
}

void Membership::OnConnected(std::vector<Effect>* effects, int64_t now_ns) {
  if (phase_ != Phase::kConnecting) return;
  for (const auto& [id, state] : members_) {
    if (!state.broken && !state.connected) return;
  }
  phase_ = Phase::kRunning;
  phase_since_ns_ = now_ns;
  Command command;
  command.mutable_go();
  go_sent_ = true;
  SendGroup(command, effects);
  if (rebuild_.has_value()) GroupStands(now_ns);
  TakeIn(now_ns, effects);
}

// A worker that is being replaced has steps of its own to make.
void Membership::OnDone(int64_t now_ns, std::vector<Effect>* effects) {
  if (phase_ != Phase::kRunning) return;
  for (int rank = 0; rank < config_.run.world_size(); ++rank) {
    const auto worker = members_.find({WORKER, rank});
    const bool here = worker != members_.end();
    if (here ? !worker->second.done : replacements_.Awaits({WORKER, rank})) return;
  }
  if (ChangeAsPlanned(now_ns, effects)) return;
  Stop(absl::OkStatus(), effects);
}

// One that was told to go back may still be writing what it had before.
void Membership::OnSaved(const MemberState& state, const Saved& saved,
                         std::vector<Effect>* effects) {
  if (!shards_.has_value() || (shards_->restoring() && !state.connected)) return;
  if (shards_->Add(saved)) effects->push_back(Effect::Manifest(shards_->Manifest()));
}

void Membership::OnCaughtUp(const CaughtUp& caught_up, int64_t now_ns,
                            std::vector<Effect>* effects) {
  if (!shards_.has_value() || caught_up.epoch() != epoch_ || !shards_->Add(caught_up)) return;
  copied_bytes_ += caught_up.bytes();
  if (!exposed_since_ns_.has_value() || !shards_->Complete()) return;
  const double exposed_s =
      static_cast<double>(now_ns - *exposed_since_ns_) / static_cast<double>(kNsPerSecond);
  effects->push_back(Effect::Line(
      absl::StrFormat("every shard has all its copies again, after %.2f s; %d bytes copied",
                      exposed_s, copied_bytes_)));
  exposed_since_ns_.reset();
}

std::vector<Effect> Membership::OnClosed(int64_t session, int64_t now_ns) {
  std::vector<Effect> effects;
  const auto member = Find(session);
  if (member == members_.end() || member->second.gone || phase_ == Phase::kStopping) return effects;
  Lose(member, absl::UnavailableError(kStreamBroke), now_ns, &effects);
  return effects;
}

std::vector<Effect> Membership::OnExit(const MemberExit& exit, int64_t now_ns) {
  std::vector<Effect> effects;
  if (phase_ == Phase::kStopping) return effects;
  if (left_pids_.contains(exit.pid)) {
    OnLeftExit(exit, now_ns);
    return effects;
  }
  const auto failed = [&](const Failure& failure) { return failure.member == exit.member; };
  if (lost_pids_.contains(exit.pid)) {  // whoever is in its place now is another process
    if (exit.clean) return effects;
    ExplainEnd(exit.member, exit.how, &failures_);
    if (rebuild_.has_value()) rebuild_->Explain(exit.member, exit.how);
    for (Rebuilding& over : untold_) over.rebuild.Explain(exit.member, exit.how);
    return effects;
  }
  if (std::any_of(failures_.begin(), failures_.end(), failed)) {
    // The stream broke first; how the process ended says more. A member that named its error keeps
    // it.
    if (!exit.clean) ExplainEnd(exit.member, exit.how, &failures_);
    return effects;
  }
  if (exit.member == kMpirun) {  // it ends with its workers, and after them
    if (!exit.clean) {
      Fail({.member = exit.member,
            .status = absl::UnavailableError(exit.how),
            .consequence = !failures_.empty(),
            .lost = true},
           now_ns);
    }
    return effects;
  }
  const auto joined = members_.find(exit.member);
  if (joined != members_.end() && IsAnother(joined->second, exit.pid)) {
    return effects;  // one replacement too many, which was refused
  }
  if (joined != members_.end()) {
    Lose(joined, absl::UnavailableError(exit.how), now_ns, &effects);
  } else if (IsVacant(exit.member)) {
    if (exit.pid != 0) ended_.emplace(exit.member, exit.pid);
    if (replacements_.Awaits(exit.member)) Replace(exit.member, exit.how, now_ns, &effects);
    Regroup(now_ns, &effects);
  } else {
    Fail({.member = exit.member, .status = absl::UnavailableError(exit.how), .lost = true}, now_ns);
  }
  return effects;
}

std::vector<Effect> Membership::OnStopRequested(const absl::Status& reason, int64_t /*now_ns*/) {
  std::vector<Effect> effects;
  if (phase_ != Phase::kStopping) Stop(reason, &effects);
  return effects;
}

int64_t Membership::StepOf(const MemberState& member) const {
  return go_sent_ ? member.step + 1 : 0;
}

void Membership::Fail(Failure failure, int64_t now_ns) {
  if (phase_ == Phase::kStopping) return;
  if (phase_ != Phase::kFailing) {
    phase_ = Phase::kFailing;
    phase_since_ns_ = now_ns;
    if (rebuild_.has_value()) failures_ = rebuild_->causes();
    rebuild_.reset();
  }
  failures_.push_back(std::move(failure));
}

void Membership::Stop(const absl::Status& outcome, std::vector<Effect>* effects) {
  phase_ = Phase::kStopping;
  outcome_ = outcome;
  TellOfRebuilds(/*now_ns=*/0, /*last=*/true, effects);
  Command command;
  command.mutable_stop()->set_code(static_cast<int>(outcome.code()));
  command.mutable_stop()->set_reason(absl::StrCat(outcome.message()));
  SendAll(command, effects);
}

void Membership::SendAll(const Command& command, std::vector<Effect>* effects) const {
  for (const auto& [id, state] : members_) effects->push_back(Effect::Send(state.session, command));
}

void Membership::SendGroup(const Command& command, std::vector<Effect>* effects) const {
  for (const auto& [id, state] : members_) {
    if (!state.broken) effects->push_back(Effect::Send(state.session, command));
  }
}

bool Membership::Spares(const MemberId& member, int64_t pid) const {
  if (lost_pids_.contains(pid)) return true;
  if (left_pids_.contains(pid)) return false;
  const auto joined = members_.find(member);
  const bool spare = joined == members_.end() || IsAnother(joined->second, pid);
  return go_sent_ && !(member == kMpirun) && spare;
}

std::vector<MemberId> Membership::Declared() const {
  std::vector<MemberId> declared;
  declared.reserve(static_cast<size_t>(config_.run.world_size()) +
                   static_cast<size_t>(config_.run.servers()));
  for (int rank = 0; rank < config_.run.world_size(); ++rank) declared.push_back({WORKER, rank});
  for (int index = 0; index < config_.run.servers(); ++index) declared.push_back({SERVER, index});
  return declared;
}

Membership::Members::iterator Membership::Find(int64_t session) {
  return std::find_if(members_.begin(), members_.end(),
                      [&](const auto& member) { return member.second.session == session; });
}

int64_t Membership::step() const {
  int64_t smallest = INT64_MAX;
  for (const auto& [id, state] : members_) {
    if (id.role == WORKER && state.step != kNoState) smallest = std::min(smallest, state.step);
  }
  return smallest == INT64_MAX ? 0 : smallest;
}

}  // namespace lockstep
