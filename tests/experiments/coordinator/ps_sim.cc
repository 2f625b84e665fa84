#include "tests/experiments/coordinator/ps_sim.h"

#include <algorithm>

#include "tests/experiments/coordinator/ps_simulation.h"

namespace lockstep::sim {

MembershipConfig PsSimulation::Config() const {
  MembershipConfig config;
  config.run.set_world_size(options_.workers);
  config.run.set_servers(options_.servers);
  config.run.mutable_experiment()->mutable_train()->set_steps(static_cast<int32_t>(options_.steps));
  Ps* ps = config.run.mutable_variant()->mutable_ps();
  ps->set_policy(options_.policy);
  ps->set_replicas(options_.replicas);
  ps->set_on_worker_loss(options_.on_worker_loss);
  config.limits = SimLimits();
  config.build = "sim";
  return config;
}

PsSimResult PsSimulation::Run() {
  for (int i = 0; i < options_.workers; ++i) Start({WORKER, i}, Draw(1, 40));
  for (int i = 0; i < options_.servers; ++i) Start({SERVER, i}, Draw(1, 40));
  PlanFaults();
  Every(kTickMs, [this] { Perform(membership_.OnTick(NowNs())); });
  RunUntil([this] { return Over(); });
  result_.ended = Over();
  result_.elapsed_ms = now_ms_;
  result_.epochs = static_cast<int64_t>(starts_.size());
  result_.outcome =
      membership_.stopping() ? membership_.outcome() : absl::InternalError("still running");
  return std::move(result_);
}

void PsSimulation::In(int64_t id, const std::function<void(PsProcess*)>& run) {
  PsProcess& process = *processes_[id];
  if (!process.alive) return;
  if (process.frozen_until_ms > now_ms_) {
    At(process.frozen_until_ms, [this, id, run] { In(id, run); });
    return;
  }
  if (process.phase != Phase::kOver) run(&process);
}

bool PsSimulation::Over() const {
  if (!membership_.stopping()) return false;
  return std::all_of(processes_.begin(), processes_.end(), [this](const auto& entry) {
    const PsProcess& process = *entry.second;
    return !process.alive || process.phase == Phase::kOver || process.frozen_until_ms > now_ms_ ||
           membership_.Spares(process.member, process.id);
  });
}

void PsSimulation::Start(const MemberId& member, int64_t delay_ms) {
  const int64_t id = next_id_++;
  auto process = std::make_unique<PsProcess>();
  process->id = id;
  process->member = member;
  processes_[id] = std::move(process);
  At(now_ms_ + delay_ms, [this, id] {
    In(id, [this](PsProcess* p) {
      MemberEvent event;
      Join* join = event.mutable_join();
      join->set_role(p->member.role);
      join->set_index(p->member.index);
      join->set_build("sim");
      join->set_protocol(kProtocol);
      join->set_pid(p->id);
      join->set_endpoint(absl::StrCat(p->id, ":", p->generation));
      p->heard_ms = now_ms_;
      Say(p, event);
      Beat(p->id);
    });
  });
}

void PsSimulation::Report(int64_t id, const std::string& how) {
  Deliver(Up(id), Draw(0, 20), [this, id] { Perform(membership_.OnClosed(id, NowNs())); });
  At(now_ms_ + Draw(0, 60), [this, id, how] {
    Perform(membership_.OnExit(
        {.member = processes_[id]->member, .pid = id, .clean = false, .how = how}, NowNs()));
  });
}

void PsSimulation::Kill(int64_t id) {
  PsProcess& process = *processes_[id];
  if (!process.alive || process.phase == Phase::kOver) return;
  process.alive = false;
  Report(id, "was killed by SIGKILL");
}

void PsSimulation::End(PsProcess* process) {
  process->phase = Phase::kOver;
  Report(process->id, "exited with code 3");
}

void PsSimulation::PlanFaults() {
  if (options_.in_turn) {
    At(kTrainsFromMs, [this] { KillInTurn(0); });
    return;
  }
  std::vector<std::function<void()>> faults;
  for (int i = 0; i < options_.server_kills + options_.worker_kills; ++i) {
    const Role role = i < options_.server_kills ? SERVER : WORKER;
    faults.emplace_back([this, role] { Kill(Victim(role)); });
  }
  for (int i = 0; i < options_.long_freezes; ++i) {
    faults.emplace_back(
        [this] { processes_[Victim(SERVER)]->frozen_until_ms = now_ms_ + Draw(320, 1'200); });
  }
  std::shuffle(faults.begin(), faults.end(), random_);
  for (size_t i = 0; i < faults.size(); ++i) {
    if (i > 0 && options_.during_rebuild) {
      after_break_.push_back(faults[i]);
    } else {
      At(Draw(kTrainsFromMs, 1'200), faults[i]);
    }
  }
}

// Each once the one before is a copy again.
void PsSimulation::KillInTurn(int server) {
  if (server >= options_.servers || membership_.stopping()) return;
  for (const auto& [id, process] : processes_) {
    if (process->member == MemberId{SERVER, server}) Kill(id);
  }
  At(now_ms_ + 800, [this, server] { KillInTurn(server + 1); });
}

int64_t PsSimulation::Victim(Role role) {
  std::vector<int64_t> alive;
  for (const auto& [id, process] : processes_) {
    const bool may = process->member.role == role && process->alive;
    if (may && process->phase != Phase::kOver) alive.push_back(id);
  }
  if (alive.empty()) return processes_.begin()->first;
  return alive[static_cast<size_t>(Draw(0, static_cast<int64_t>(alive.size()) - 1))];
}

void PsSimulation::Perform(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    const int64_t id = effect.session;
    switch (effect.kind) {
      case Effect::Kind::kLine:
        result_.lines.push_back(effect.line);
        break;
      case Effect::Kind::kSpawn:
        Start(effect.member, Draw(20, kSpawnMsMax));
        break;
      case Effect::Kind::kManifest:
        break;
      case Effect::Kind::kClose:
        closing_.insert(id);
        Deliver(Up(id), 0, [this, id] { Perform(membership_.OnClosed(id, NowNs())); });
        break;
      case Effect::Kind::kSend:
        if (effect.command.has_start()) CheckStart(effect.command.start());
        if (effect.command.has_lost()) {
          for (const auto& fault : std::exchange(after_break_, {})) {
            At(now_ms_ + Draw(0, 250), fault);
          }
        }
        Deliver(Down(id), Draw(1, 20), [this, id, command = effect.command] {
          In(id, [this, command](PsProcess* process) { Obey(process, command); });
        });
        break;
    }
  }
}

// Every Start of an epoch is the same for all, epochs rise, and every shard has a head that is
// there.
void PsSimulation::CheckStart(const lockstep::Start& start) {
  const std::string text = start.SerializeAsString();
  const auto known = starts_.emplace(start.epoch(), text);
  if (!known.second && known.first->second != text) Violation("two Starts of one epoch");
  if (start.epoch() < starts_.rbegin()->first) Violation("a late Start");
  if (!known.second) return;
  std::set<int> servers;
  for (const MemberInfo& member : start.member()) {
    if (member.role() == SERVER) servers.insert(member.index());
  }
  for (const ShardChain& chain : start.chain()) {
    if (chain.server_size() == 0) Violation("a shard without a server");
    for (const int server : Order(chain)) {
      if (!servers.contains(server)) Violation("a chain names a server that is not there");
    }
  }
  if (!start.restore()) return;
  if (options_.damaged_snapshot && !result_.restored) damaged_.insert(start.step());
  result_.restored = true;
  told_.clear();  // the steps are made again
  for (int shard = 0; shard < options_.servers; ++shard) {
    if (!disk_.contains({shard, start.step()})) Violation("a cut that is not on disk");
  }
}

PsSimResult SimulatePs(const PsSimOptions& options) { return PsSimulation(options).Run(); }

}  // namespace lockstep::sim
