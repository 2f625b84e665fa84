// The servers and workers of ps_simulation.h.
#include <algorithm>

#include "tests/experiments/coordinator/ps_simulation.h"

namespace lockstep::sim {
namespace {

constexpr int64_t kSnapshotEvery = 5;

uint64_t NextNumber(uint64_t number, int64_t version) {
  uint64_t z = number ^ (static_cast<uint64_t>(version) * 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t UndisturbedShard(int64_t steps) {
  uint64_t number = 0;
  for (int64_t version = 1; version <= steps; ++version) number = NextNumber(number, version);
  return number;
}

std::vector<int> PsSimulation::Order(const ShardChain& chain) {
  std::vector<int> order(chain.server().begin(), chain.server().end());
  order.insert(order.end(), chain.joining().begin(), chain.joining().end());
  return order;
}

std::optional<int> PsSimulation::Neighbour(const ShardChain& chain, int server, int offset) {
  const std::vector<int> order = Order(chain);
  const auto place = std::find(order.begin(), order.end(), server);
  if (place == order.end()) return std::nullopt;
  const auto at = (place - order.begin()) + offset;
  if (at < 0 || at >= static_cast<std::ptrdiff_t>(order.size())) return std::nullopt;
  return order[static_cast<size_t>(at)];
}

void PsSimulation::Say(PsProcess* process, const MemberEvent& event) {
  const int64_t id = process->id;
  Deliver(Up(id), Draw(1, 20), [this, id, event] {
    if (!closing_.contains(id)) Perform(membership_.OnEvent(id, event, NowNs()));
  });
}

void PsSimulation::Beat(int64_t id) {
  In(id, [this](PsProcess* process) {
    if (now_ms_ - process->heard_ms > SimLimits().lease_ms) return End(process);
    MemberEvent event;
    event.mutable_beat()->set_step(std::max<int64_t>(process->step, 0));
    Say(process, event);
    CheckDeadline(process);
    const int64_t own = process->id;
    At(now_ms_ + SimLimits().heartbeat_ms, [this, own] { Beat(own); });
  });
}

void PsSimulation::Obey(PsProcess* process, const Command& command) {
  process->heard_ms = now_ms_;
  switch (process->group.Take(command)) {
    case GroupState::News::kStarted:
      return Connect(process);
    case GroupState::News::kGo:
      if (process->phase != Phase::kReady) return;
      process->phase = Phase::kTraining;
      if (process->member.role == WORKER) return Push(process);
      for (const auto& [shard, copy] : process->copies) {
        if (copy.version == 0) Save(process, shard);
      }
      return;
    case GroupState::News::kGroupDead:
      return Leave(process, process->group.dead());
    case GroupState::News::kEnded:
      // One that was fenced may be told that much later.
      if (membership_.outcome().ok() && process->member.role == SERVER &&
          !closing_.contains(process->id)) {
        for (const auto& [shard, copy] : process->copies) {
          if (ChainOf(*process, shard).server(0) == process->member.index) {
            result_.finals.insert(copy.number);
          }
        }
      }
      return End(process);
    default:
      return;
  }
}

void PsSimulation::Connect(PsProcess* process) {
  if (process->phase != Phase::kJoining && process->phase != Phase::kLeft) {
    Violation("a Start for a member that has not left its group");
  }
  process->phase = Phase::kConnecting;
  process->waiting_since_ms = now_ms_;
  process->peers.clear();
  process->welcomes.clear();
  const lockstep::Start& start = process->group.start();
  for (const MemberInfo& member : start.member()) {
    process->peers[{member.role(), member.index()}] = std::stoll(member.endpoint());
  }
  if (process->member.role == SERVER) {
    if (!Restore(process)) return;
    ConnectServer(process);
  } else {
    for (const ShardChain& chain : start.chain()) {
      Tell(process, {SERVER, chain.server(0)}, {.kind = Kind::kHello, .shard = chain.shard()});
    }
  }
  for (const PsMessage& message : std::exchange(early_[process->id], {})) Hear(process, message);
}

// False: a file is damaged.
bool PsSimulation::Restore(PsProcess* process) {
  const lockstep::Start& start = process->group.start();
  if (!start.restore()) return true;
  process->copies.clear();
  for (const ShardChain& chain : start.chain()) {
    if (chain.server(0) != process->member.index) continue;
    if (damaged_.contains(start.step())) {
      Leave(process, absl::DataLossError("the snapshot is truncated"));
      return false;
    }
    process->copies[chain.shard()] = disk_[{chain.shard(), start.step()}];
  }
  return true;
}

void PsSimulation::ConnectServer(PsProcess* process) {
  process->staged.clear();
  process->owed.clear();
  process->waits_for_successor.clear();
  process->awaits_state.clear();
  process->greetings.clear();
  const int self = process->member.index;
  std::map<int, CopyModel> kept;
  for (const ShardChain& chain : process->group.start().chain()) {
    const int shard = chain.shard();
    const auto member = std::find(chain.server().begin(), chain.server().end(), self);
    if (member == chain.server().end()) continue;
    if (process->group.epoch() == kFirstEpoch) process->copies[shard] = {};
    if (!process->copies.contains(shard)) Violation("a copy of a chain that has no state");
    kept[shard] = process->copies[shard];
    process->waits_for_successor[shard] = std::next(member) != chain.server().end();
    if (member != chain.server().begin()) process->awaits_state.insert(shard);
  }
  process->copies = kept;
  for (const auto& [shard, copy] : kept) {
    process->confirmed[shard] = copy.version;
    if (!process->awaits_state.contains(shard)) SendOn(process, shard, Kind::kState);
  }
  Serve(process);
}

// Once it has what its predecessors have.
void PsSimulation::Serve(PsProcess* process) {
  if (process->phase != Phase::kConnecting || !process->awaits_state.empty()) return;
  process->phase = Phase::kReady;
  process->waiting_since_ms = now_ms_;
  MemberEvent event;
  event.mutable_connected();
  Say(process, event);
  for (const PsMessage& hello : std::exchange(process->greetings, {})) Welcome(process, hello);
}

void PsSimulation::Tell(PsProcess* process, const MemberId& to, PsMessage message) {
  message.epoch = process->group.epoch();
  message.from = process->member;
  const auto peer = process->peers.find(to);
  if (peer == process->peers.end()) return;
  const int64_t target = peer->second;
  Deliver(Between(process->id, target), Draw(1, 15), [this, target, message] {
    In(target, [this, message](PsProcess* hearer) {
      if (message.epoch > hearer->group.epoch()) {
        early_[hearer->id].push_back(message);
      } else {
        Hear(hearer, message);
      }
    });
  });
}

void PsSimulation::Hear(PsProcess* process, const PsMessage& message) {
  if (message.epoch != process->group.epoch() || process->phase == Phase::kLeft ||
      process->phase == Phase::kJoining) {
    return;  // a stranger's
  }
  process->member.role == SERVER ? HearAsServer(process, message) : HearAsWorker(process, message);
}

void PsSimulation::HearAsServer(PsProcess* process, const PsMessage& message) {
  const int shard = message.shard;
  switch (message.kind) {
    case Kind::kHello:
      if (process->phase == Phase::kConnecting) {
        process->greetings.push_back(message);
      } else {
        Welcome(process, message);
      }
      return;
    case Kind::kPush:
      return TakePush(process, message);
    case Kind::kState:
      process->copies[shard] = {.version = message.step, .number = message.number};
      process->confirmed[shard] = message.step;
      process->awaits_state.erase(shard);
      SendOn(process, shard, Kind::kState);
      if (!process->waits_for_successor[shard]) Confirm(process, shard);
      return Serve(process);
    case Kind::kUpdate:
      if (process->copies[shard].version + 1 != message.step) Violation("an update out of order");
      process->copies[shard] = {.version = message.step, .number = message.number};
      SendOn(process, shard, Kind::kUpdate);
      if (!process->waits_for_successor[shard]) Confirm(process, shard);
      return;
    case Kind::kConfirm: {
      const bool in_step = message.step >= process->confirmed[shard];
      if (!process->waits_for_successor[shard] && in_step) {  // it joined, and has caught up
        process->waits_for_successor[shard] = true;
        MemberEvent event;
        event.mutable_caught_up()->set_epoch(process->group.epoch());
        event.mutable_caught_up()->set_shard(shard);
        event.mutable_caught_up()->set_server(message.from.index);
        Say(process, event);
      }
      if (in_step) process->confirmed[shard] = message.step;
      return Confirm(process, shard);
    }
    default:
      return;
  }
}

void PsSimulation::SendOn(PsProcess* process, int shard, Kind kind) {
  const auto next = Neighbour(ChainOf(*process, shard), process->member.index, 1);
  if (!next.has_value()) return;
  const CopyModel& copy = process->copies[shard];
  Tell(process, {SERVER, *next},
       {.kind = kind, .shard = shard, .step = copy.version, .number = copy.number});
}

// What all behind this copy have goes up; from the head it goes to the workers.
void PsSimulation::Confirm(PsProcess* process, int shard) {
  const CopyModel& copy = process->copies[shard];
  if (!process->waits_for_successor[shard]) process->confirmed[shard] = copy.version;
  const auto before = Neighbour(ChainOf(*process, shard), process->member.index, -1);
  if (before.has_value()) {
    Tell(process, {SERVER, *before},
         {.kind = Kind::kConfirm, .shard = shard, .step = process->confirmed[shard]});
    return;
  }
  if (process->confirmed[shard] < copy.version) return;
  const std::set<MemberId> owed = std::exchange(process->owed[shard], {});
  for (const MemberId& worker : owed) {
    Tell(process, worker, {.kind = Kind::kReply, .shard = shard, .step = copy.version});
  }
  if (!owed.empty() && copy.version % kSnapshotEvery == 0) Save(process, shard);
}

void PsSimulation::Welcome(PsProcess* process, const PsMessage& hello) {
  const int64_t version = process->copies[hello.shard].version;
  Tell(process, hello.from, {.kind = Kind::kWelcome, .shard = hello.shard, .step = version});
}

void PsSimulation::TakePush(PsProcess* process, const PsMessage& push) {
  const int shard = push.shard;
  CopyModel& copy = process->copies[shard];
  if (push.step <= copy.version) {  // again; it is told what it was not told before
    process->owed[shard].insert(push.from);
    return Confirm(process, shard);
  }
  if (push.step != copy.version + 1) return Violation("a push of a step that is not next");
  process->staged[shard].insert(push.from);
  size_t workers = 0;
  for (const auto& [member, peer] : process->peers) workers += member.role == WORKER ? 1 : 0;
  if (process->staged[shard].size() < workers) return;
  process->owed[shard] = std::exchange(process->staged[shard], {});
  ++copy.version;
  copy.number = NextNumber(copy.number, copy.version);
  SendOn(process, shard, Kind::kUpdate);
  Confirm(process, shard);
}

void PsSimulation::Save(PsProcess* process, int shard) {
  if (options_.policy != Ps::SNAPSHOT) return;
  const int64_t id = process->id;
  const int64_t epoch = process->group.epoch();
  const CopyModel copy = process->copies[shard];
  At(now_ms_ + Draw(2, 80), [this, id, epoch, shard, copy] {
    In(id, [this, epoch, shard, copy](PsProcess* server) {
      if (server->group.epoch() != epoch) return;  // given up when it went back
      disk_[{shard, copy.version}] = copy;
      MemberEvent event;
      event.mutable_saved()->set_shard(shard);
      event.mutable_saved()->set_version(copy.version);
      event.mutable_saved()->set_step(copy.version);
      Say(server, event);
    });
  });
}

void PsSimulation::HearAsWorker(PsProcess* process, const PsMessage& message) {
  if (message.kind == Kind::kWelcome && process->phase == Phase::kConnecting) {
    if (message.step < told_[message.shard]) Violation("an acknowledged update is lost");
    process->welcomes[message.shard] = message.step;
    if (process->welcomes.size() < static_cast<size_t>(options_.servers)) return;
    process->step = INT64_MAX;
    for (const auto& [shard, version] : process->welcomes) {
      process->step = std::min(process->step, version);
    }
    process->phase = Phase::kReady;
    process->waiting_since_ms = now_ms_;
    MemberEvent event;
    event.mutable_connected();
    Say(process, event);
  } else if (message.kind == Kind::kReply && process->phase == Phase::kTraining) {
    int64_t& told = told_[message.shard];
    told = std::max(told, message.step);
    if (message.step < process->step + 1) return;
    process->replies.insert(message.shard);
    if (process->replies.size() < static_cast<size_t>(options_.servers)) return;
    ++process->step;
    Push(process);
  }
}

void PsSimulation::Push(PsProcess* process) {
  process->replies.clear();
  process->waiting_since_ms = now_ms_;
  if (process->step == options_.steps) {
    process->phase = Phase::kDone;
    MemberEvent event;
    event.mutable_done()->set_step(process->step);
    return Say(process, event);
  }
  const int64_t id = process->id;
  const int64_t epoch = process->group.epoch();
  At(now_ms_ + Draw(2, 30), [this, id, epoch] {
    In(id, [this, epoch](PsProcess* p) {
      if (p->phase != Phase::kTraining || p->group.epoch() != epoch) return;
      for (const ShardChain& chain : p->group.start().chain()) {
        Tell(p, {SERVER, chain.server(0)},
             {.kind = Kind::kPush, .shard = chain.shard(), .step = p->step + 1});
      }
    });
  });
}

void PsSimulation::CheckDeadline(PsProcess* process) {
  const Limits limits = SimLimits();
  const int64_t waited_ms = now_ms_ - process->waiting_since_ms;
  const bool worker = process->member.role == WORKER;
  const std::map<Phase, int64_t> bounds = {
      {Phase::kConnecting, limits.connect_timeout_ms + limits.sync_timeout_ms},
      {Phase::kReady, limits.connect_timeout_ms + limits.sync_timeout_ms + limits.lease_ms},
      {Phase::kLeft, limits.rebuild_timeout_ms + limits.lease_ms},
      {Phase::kTraining, worker ? limits.sync_timeout_ms : kEndMs}};
  const auto bound = bounds.find(process->phase);
  if (bound == bounds.end() || waited_ms < bound->second) return;
  const absl::Status late = absl::DeadlineExceededError("nothing came");
  if (process->phase == Phase::kLeft) {
    Fail(process, late);
  } else {
    Leave(process, late);
  }
}

void PsSimulation::Leave(PsProcess* process, const absl::Status& cause) {
  if (process->phase == Phase::kLeft || process->phase == Phase::kOver) return;
  if (!process->group.MayRebuild(cause)) return Fail(process, cause);
  MemberEvent event;
  Broken* broken = event.mutable_broken();
  broken->set_epoch(process->group.epoch());
  broken->set_step(process->step);
  broken->set_code(static_cast<int>(cause.code()));
  broken->set_message(absl::StrCat(cause.message()));
  for (const auto& [shard, copy] : process->copies) {
    ShardHeld* held = broken->add_held();
    held->set_shard(shard);
    held->set_version(copy.version);
  }
  ++process->generation;
  broken->set_endpoint(absl::StrCat(process->id, ":", process->generation));
  process->group.Break();
  process->phase = Phase::kLeft;
  process->waiting_since_ms = now_ms_;
  Say(process, event);
}

void PsSimulation::Fail(PsProcess* process, const absl::Status& status) {
  MemberEvent event;
  event.mutable_failed()->set_code(static_cast<int>(status.code()));
  event.mutable_failed()->set_message(absl::StrCat(status.message()));
  event.mutable_failed()->set_consequence(true);
  Say(process, event);
  End(process);
}

}  // namespace lockstep::sim
