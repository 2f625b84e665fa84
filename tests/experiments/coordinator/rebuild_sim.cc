#include "tests/experiments/coordinator/rebuild_sim.h"

#include "tests/experiments/coordinator/simulation.h"

namespace lockstep::sim {

MembershipConfig Simulation::Config() const {
  MembershipConfig config;
  config.run.set_world_size(options_.workers);
  config.run.mutable_experiment()->mutable_train()->set_steps(static_cast<int32_t>(options_.steps));
  config.run.mutable_variant()->mutable_all_reduce()->set_on_loss(options_.on_loss);
  config.limits = SimLimits();
  config.build = "sim";
  return config;
}

void Simulation::In(int64_t id, const std::function<void(Process*)>& run) {
  Process& process = *processes_[id];
  if (!process.alive) return;
  if (process.frozen_until_ms > now_ms_) {
    At(process.frozen_until_ms, [this, id, run] { In(id, run); });
    return;
  }
  if (process.phase != Process::Phase::kOver) run(&process);
}

bool Simulation::Over() const {
  if (!membership_.stopping()) return false;
  return std::all_of(processes_.begin(), processes_.end(), [this](const auto& entry) {
    const Process& process = *entry.second;
    return !process.alive || process.phase == Process::Phase::kOver ||
           process.frozen_until_ms > now_ms_;
  });
}

void Simulation::Start(int index, int64_t delay_ms) {
  const int64_t id = next_id_++;
  auto process = std::make_unique<Process>();
  process->id = id;
  process->index = index;
  processes_[id] = std::move(process);
  At(now_ms_ + delay_ms, [this, id] {
    In(id, [this](Process* p) {
      MemberEvent event;
      Join* join = event.mutable_join();
      join->set_role(WORKER);
      join->set_index(p->index);
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

void Simulation::Kill(int64_t id) {
  Process& process = *processes_[id];
  if (!process.alive || process.phase == Process::Phase::kOver) return;
  BreakLinks(process);
  process.alive = false;
  Deliver(Up(id), Draw(0, 20), [this, id] { Closed(id); });
  At(now_ms_ + Draw(0, 60), [this, id] {
    Perform(membership_.OnExit({.member = {WORKER, processes_[id]->index},
                                .pid = id,
                                .clean = false,
                                .how = "was killed by SIGKILL"},
                               NowNs()));
  });
}

void Simulation::End(Process* process) {
  BreakLinks(*process);
  process->phase = Process::Phase::kOver;
  const int64_t id = process->id;
  Deliver(Up(id), Draw(0, 20), [this, id] { Closed(id); });
  At(now_ms_ + Draw(0, 60), [this, id] {
    Perform(membership_.OnExit({.member = {WORKER, processes_[id]->index},
                                .pid = id,
                                .clean = false,
                                .how = "exited with code 3"},
                               NowNs()));
  });
}

void Simulation::PlanFaults() {
  std::vector<std::function<void()>> faults;
  for (int i = 0; i < options_.kills; ++i) {
    faults.emplace_back([this] { Kill(Victim()); });
  }
  for (int i = 0; i < options_.short_freezes + options_.long_freezes; ++i) {
    const bool is_long = i >= options_.short_freezes;
    faults.emplace_back([this, is_long] {
      Process& victim = *processes_[Victim()];
      victim.frozen_until_ms = now_ms_ + (is_long ? Draw(320, 1'200) : Draw(20, 250));
    });
  }
  for (int i = 0; i < options_.lost_messages; ++i) {
    faults.emplace_back([this] { ++to_lose_; });
  }
  std::shuffle(faults.begin(), faults.end(), random_);
  for (size_t i = 0; i < faults.size(); ++i) {
    if (i > 0 && options_.during_rebuild) {
      after_break_.push_back(faults[i]);
    } else {
      At(Draw(kTrainsFromMs, 800), faults[i]);
    }
  }
}

int64_t Simulation::Victim() {
  std::vector<int64_t> alive;
  for (const auto& [id, process] : processes_) {
    if (process->alive && process->phase != Process::Phase::kOver) alive.push_back(id);
  }
  if (alive.empty()) return processes_.begin()->first;
  return alive[static_cast<size_t>(Draw(0, static_cast<int64_t>(alive.size()) - 1))];
}

void Simulation::Perform(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    const int64_t id = effect.session;
    if (effect.kind == Effect::Kind::kLine) {
      result_.lines.push_back(effect.line);
    } else if (effect.kind == Effect::Kind::kSpawn) {
      Start(effect.member.index, Draw(20, kSpawnMsMax));
    } else if (effect.kind == Effect::Kind::kClose) {
      closing_.insert(id);
      Deliver(Up(id), 0, [this, id] { Closed(id); });
    } else {
      CheckCommand(effect.command);
      Deliver(Down(id), Draw(1, 20), [this, id, command = effect.command] {
        In(id, [this, command](Process* process) { Obey(process, command); });
      });
    }
  }
}

void Simulation::CheckCommand(const Command& command) {
  if (command.has_start()) {
    const int64_t epoch = command.start().epoch();
    const std::string text = command.start().SerializeAsString();
    const auto known = starts_.emplace(epoch, text);
    if (known.first->second != text) Violation(absl::StrCat("two Starts of epoch ", epoch));
    if (epoch < starts_.rbegin()->first) Violation(absl::StrCat("late Start of ", epoch));
    result_.epochs = static_cast<int64_t>(starts_.size());
  }
  if (command.has_go()) {
    go_epoch_ = starts_.rbegin()->first;
    for (const auto& [id, process] : processes_) {
      const bool early = process->group.epoch() == go_epoch_ && process->alive &&
                         (process->phase == Process::Phase::kConnecting ||
                          process->phase == Process::Phase::kHandOver);
      if (early) Violation("Go before everybody has the state");
    }
  }
  if (command.has_lost()) {
    for (const auto& fault : std::exchange(after_break_, {})) At(now_ms_ + Draw(0, 250), fault);
  }
}

SimResult Simulate(const SimOptions& options) { return Simulation(options).Run(); }

uint64_t Undisturbed(int workers, int64_t steps) {
  uint64_t state = 0;
  for (int64_t step = 1; step <= steps; ++step) state = Mix(state, step, workers);
  return state;
}

}  // namespace lockstep::sim
