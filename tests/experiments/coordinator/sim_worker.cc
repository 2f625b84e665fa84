// The workers of simulation.h: each goes through what worker/main.cc does.
#include "tests/experiments/coordinator/simulation.h"

namespace lockstep::sim {

void Simulation::Say(Process* process, const MemberEvent& event) {
  const int64_t id = process->id;
  Deliver(Up(id), Draw(1, 20), [this, id, event] {
    if (!closing_.contains(id)) Perform(membership_.OnEvent(id, event, NowNs()));
  });
}

void Simulation::Beat(int64_t id) {
  In(id, [this](Process* process) {
    if (now_ms_ - process->heard_ms > SimLimits().lease_ms) return End(process);
    MemberEvent event;
    event.mutable_beat()->set_step(std::max<int64_t>(process->step, 0));
    Say(process, event);
    CheckDeadline(process);
    const int64_t own = process->id;
    At(now_ms_ + SimLimits().heartbeat_ms, [this, own] { Beat(own); });
  });
}

void Simulation::Obey(Process* process, const Command& command) {
  process->heard_ms = now_ms_;
  switch (process->group.Take(command)) {
    case GroupState::News::kStarted:
      return Connect(process);
    case GroupState::News::kGo:
      if (process->phase == Process::Phase::kReady) NextStep(process);
      break;
    case GroupState::News::kGroupDead:
      return Leave(process, process->group.dead());
    case GroupState::News::kEnded:
      if (process->phase == Process::Phase::kDone && membership_.outcome().ok()) {
        result_.finals.insert(process->state);
        if (process->step != options_.steps) Violation("a worker ended before its last step");
      }
      return End(process);
    default:
      break;
  }
}

void Simulation::Connect(Process* process) {
  const lockstep::Start& start = process->group.start();
  if (process->phase != Process::Phase::kJoining && process->phase != Process::Phase::kLeft) {
    Violation("a Start for a worker that has not left its group");
  }
  if (process->phase == Process::Phase::kJoining && start.epoch() > kFirstEpoch) {
    process->step = -1;  // a replacement
  }
  process->phase = Process::Phase::kConnecting;
  process->waiting_since_ms = now_ms_;
  process->peers.clear();
  process->hellos.clear();
  process->taken.clear();
  process->has_offer = false;
  process->gradients.clear();
  for (const MemberInfo& member : start.member()) {
    if (member.index() == process->index) process->rank = static_cast<int>(process->peers.size());
    process->peers.push_back(std::stoll(member.endpoint()));
  }
  for (const PeerMessage& early : std::exchange(early_[process->id], {})) Hear(process, early);
  if (process->phase != Process::Phase::kConnecting) return;
  process->hellos.insert(process->rank);
  Tell(process, {.kind = PeerMessage::Kind::kHello});
  if (process->phase == Process::Phase::kConnecting) MeetOthers(process);
}

void Simulation::Tell(Process* process, PeerMessage message) {
  message.epoch = process->group.epoch();
  message.from = process->rank;
  for (size_t rank = 0; rank < process->peers.size(); ++rank) {
    if (static_cast<int>(rank) == process->rank) continue;
    if (message.kind == PeerMessage::Kind::kGradient && to_lose_ > 0) {
      --to_lose_;
      continue;
    }
    const int64_t to = process->peers[rank];
    Deliver(Between(process->id, to), Draw(1, 15), [this, to, message] {
      In(to, [this, message](Process* peer) {
        if (message.epoch > peer->group.epoch()) {
          early_[peer->id].push_back(message);  // its listener holds it
        } else {
          Hear(peer, message);
        }
      });
    });
  }
}

void Simulation::BreakLinks(const Process& process) {
  using Phase = Process::Phase;
  if (process.phase == Phase::kJoining || process.phase == Phase::kLeft) return;
  Tell(processes_[process.id].get(), {.kind = PeerMessage::Kind::kBroken});
}

void Simulation::Hear(Process* process, const PeerMessage& message) {
  using Phase = Process::Phase;
  if (message.epoch != process->group.epoch() || process->phase == Phase::kLeft ||
      process->phase == Phase::kJoining) {
    return;  // a stranger's, or the listener of that group is closed
  }
  switch (message.kind) {
    case PeerMessage::Kind::kBroken:
      // A worker that waits, or that is done, does not look at its links.
      if (process->phase == Phase::kReady || process->phase == Phase::kDone) return;
      return Leave(process, absl::UnavailableError("a peer is gone"));
    case PeerMessage::Kind::kHello:
      process->hellos.insert(message.from);
      break;
    case PeerMessage::Kind::kState:
      process->has_offer = true;
      process->offer = message;
      process->taken.insert(process->rank);
      Tell(process, {.kind = PeerMessage::Kind::kTaken});
      break;
    case PeerMessage::Kind::kTaken:
      process->taken.insert(message.from);
      break;
    case PeerMessage::Kind::kGradient:
      process->gradients[message.step][message.from] = message.state;
      break;
  }
  if (process->phase == Phase::kConnecting) MeetOthers(process);
  if (process->phase == Phase::kHandOver) TakeState(process);
  if (process->phase == Phase::kTraining) FinishStep(process);
}

void Simulation::MeetOthers(Process* process) {
  if (process->hellos.size() < process->peers.size()) return;
  const lockstep::Start& start = process->group.start();
  process->phase = Process::Phase::kHandOver;
  process->waiting_since_ms = now_ms_;
  if (start.source() == process->index) {
    if (start.step() != process->step) Violation("the source has another step than Start says");
    process->has_offer = true;
    process->offer = {.step = process->step, .state = process->state};
    process->taken.insert(process->rank);
    Tell(process,
         {.kind = PeerMessage::Kind::kState, .step = process->step, .state = process->state});
    Tell(process, {.kind = PeerMessage::Kind::kTaken});
  }
  TakeState(process);
}

void Simulation::TakeState(Process* process) {
  if (!process->has_offer || process->taken.size() < process->peers.size()) return;
  if (process->offer.step < process->step) Violation("a hand-over went back");
  process->step = process->offer.step;
  process->state = process->offer.state;
  process->phase = Process::Phase::kReady;
  process->waiting_since_ms = now_ms_;
  MemberEvent event;
  event.mutable_connected();
  Say(process, event);
  if (process->group.go()) NextStep(process);
}

void Simulation::NextStep(Process* process) {
  if (process->group.epoch() > go_epoch_) Violation("a step before the group's Go");
  process->waiting_since_ms = now_ms_;
  if (process->step == options_.steps) {
    process->phase = Process::Phase::kDone;
    MemberEvent event;
    event.mutable_done()->set_step(process->step);
    return Say(process, event);
  }
  process->phase = Process::Phase::kTraining;
  process->computed = false;
  const int64_t id = process->id;
  const int64_t epoch = process->group.epoch();
  At(now_ms_ + Draw(2, 30), [this, id, epoch] {
    In(id, [this, epoch](Process* p) {
      if (p->phase != Process::Phase::kTraining || p->group.epoch() != epoch || p->computed) {
        return;
      }
      p->computed = true;
      p->waiting_since_ms = now_ms_;
      p->gradients[p->step + 1][p->rank] = p->state;
      Tell(p, {.kind = PeerMessage::Kind::kGradient, .step = p->step + 1, .state = p->state});
      FinishStep(p);
    });
  });
}

void Simulation::FinishStep(Process* process) {
  const std::map<int, uint64_t>& gradients = process->gradients[process->step + 1];
  if (!process->computed || gradients.size() < process->peers.size()) return;
  const int64_t epoch = process->group.epoch();
  for (const auto& [rank, state] : gradients) {
    if (state != process->state) Violation("gradients of different states in one step");
  }
  // A worker that froze with the others' gradients in its buffers may end the step that it was
  // in. Nobody hears of it, and it gets no further.
  if (epoch < progress_epoch_ && (!closing_.contains(process->id) || process->late++ > 0)) {
    Violation(absl::StrCat("progress in the old epoch ", epoch));
  }
  progress_epoch_ = std::max(progress_epoch_, epoch);
  ++process->step;
  process->state = Mix(process->state, process->step, static_cast<int>(process->peers.size()));
  NextStep(process);
}

void Simulation::CheckDeadline(Process* process) {
  using Phase = Process::Phase;
  const Limits limits = SimLimits();
  const int64_t waited_ms = now_ms_ - process->waiting_since_ms;
  const std::map<Phase, int64_t> bounds = {
      {Phase::kConnecting, limits.connect_timeout_ms},
      {Phase::kHandOver, limits.sync_timeout_ms},
      {Phase::kReady, limits.connect_timeout_ms + limits.sync_timeout_ms + limits.lease_ms},
      {Phase::kLeft, limits.rebuild_timeout_ms + limits.lease_ms},
      {Phase::kTraining, limits.sync_timeout_ms}};
  const auto bound = bounds.find(process->phase);
  if (bound == bounds.end() || waited_ms < bound->second) return;
  const absl::Status late = absl::DeadlineExceededError("nothing came");
  if (process->phase == Phase::kLeft) {
    Fail(process, late);
  } else {
    Leave(process, late);
  }
}

void Simulation::Leave(Process* process, const absl::Status& cause) {
  using Phase = Process::Phase;
  if (process->phase == Phase::kLeft || process->phase == Phase::kOver) return;
  if (!process->group.MayRebuild(cause)) return Fail(process, cause);
  BreakLinks(*process);
  MemberEvent event;
  Broken* broken = event.mutable_broken();
  broken->set_epoch(process->group.epoch());
  broken->set_step(process->step);
  broken->set_code(static_cast<int>(cause.code()));
  broken->set_message(absl::StrCat(cause.message()));
  ++process->generation;
  broken->set_endpoint(absl::StrCat(process->id, ":", process->generation));
  process->group.Break();
  process->phase = Phase::kLeft;
  process->waiting_since_ms = now_ms_;
  Say(process, event);
}

void Simulation::Fail(Process* process, const absl::Status& status) {
  MemberEvent event;
  event.mutable_failed()->set_code(static_cast<int>(status.code()));
  event.mutable_failed()->set_message(absl::StrCat(status.message()));
  event.mutable_failed()->set_consequence(true);
  Say(process, event);
  End(process);
}

}  // namespace lockstep::sim
