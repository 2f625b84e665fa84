#include "experiments/simulate/world.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr double kExitSeenNsMax = 60e6;  // until the launcher has seen a process end
constexpr double kSlowEventNs = 200e3;   // what a slow process needs for an event, at factor 1
constexpr double kDriftMax = 200e-6;     // of a healthy clock
constexpr uint32_t kStartSecondsMax = 100'000;

}  // namespace

int64_t SimContext::NowNs() const {
  return world_.ClockOf(world_.host(process_)).MonotonicNs(world_.now_ns());
}
int64_t SimContext::WallNs() const {
  return world_.ClockOf(world_.host(process_)).WallNs(world_.now_ns());
}
void SimContext::After(double delay_ns, int64_t timer) const {
  const double true_ns = world_.ClockOf(world_.host(process_)).TrueDelayNs(delay_ns);
  world_.At(world_.now_ns() + true_ns, [world = &world_, process = process_, timer] {
    world->Deliver(process, {.kind = SimWorld::Event::Kind::kTimer, .id = timer, .bytes = {}});
  });
}
double SimContext::Slowness() const {
  const SimWorld::Process& own = world_.processes_.at(process_);
  return own.slow_until_ns > world_.now_ns() ? own.slowness : 1;
}
int64_t SimContext::Open(int64_t to, bool data) const {
  return world_.network_.Open(process_, to, data);
}
bool SimContext::HasRoom(int64_t stream) const { return world_.network_.HasRoom(stream, process_); }
void SimContext::Send(int64_t stream, std::string bytes) const {
  world_.network_.Send(stream, process_, std::move(bytes));
}
void SimContext::Close(int64_t stream) const { world_.network_.Close(stream, process_); }
void SimContext::Exit(bool clean, const std::string& how) const {
  world_.End(process_, {process_, clean, how}, /*silent=*/false);
}

SimWorld::SimWorld(const SimNetworkOptions& options, uint64_t seed)
    : options_(options),
      random_(seed, 2),
      network_(options, seed, &queue_, [this](SimNetwork::Arrival arrival) {
        using Kind = Event::Kind;
        const Kind kind = arrival.what == SimNetwork::What::kOpened    ? Kind::kOpened
                          : arrival.what == SimNetwork::What::kMessage ? Kind::kMessage
                                                                       : Kind::kClosed;
        Deliver(arrival.process, {kind, arrival.stream, std::move(arrival.bytes)});
      }) {}

SimClock& SimWorld::ClockOf(int32_t host) {
  const auto found = clocks_.find(host);
  if (found != clocks_.end()) return found->second;
  const double drift = (static_cast<double>(random_.Uniform()) * 2 - 1) * kDriftMax;
  const int64_t start_ns = (1 + random_.Below(kStartSecondsMax)) * kNsPerSecond;
  return clocks_.emplace(host, SimClock(1 + drift, start_ns)).first->second;
}

int64_t SimWorld::Start(int32_t host, double delay_ns, const Make& make) {
  const int64_t id = next_process_++;
  network_.Place(id, host);
  Process& process = processes_[id];
  process.host = host;
  process.code = make(SimContext(this, id));
  At(now_ns() + delay_ns, [this, id] { Deliver(id, {}); });
  return id;
}

bool SimWorld::Step() {
  if (queue_.empty()) return false;
  ++events_;
  queue_.Next()();
  return true;
}

bool SimWorld::alive(int64_t process) const {
  const auto found = processes_.find(process);
  return found != processes_.end() && found->second.alive;
}

bool SimWorld::frozen(int64_t process) const {
  return processes_.at(process).frozen_until_ns > now_ns();
}

// What reaches a frozen process waits for it.
bool SimWorld::Park(int64_t process, const Event& event) {
  Process& state = processes_.at(process);
  if (state.frozen_until_ns <= now_ns() && state.backlog.empty()) return false;
  state.backlog.push_back(event);
  if (!std::exchange(state.wakes, true)) {
    At(std::max(state.frozen_until_ns, now_ns()), [this, process] { Wake(process); });
  }
  return true;
}

void SimWorld::Deliver(int64_t process, Event event) {
  Process& state = processes_.at(process);
  if (!state.alive || Park(process, event)) return;
  const bool slow = state.slow_until_ns > now_ns();
  if (!slow && state.cpu.free_at_ns() <= now_ns()) return Handle(process, event);
  const Port::Turn turn = state.cpu.Reserve(now_ns(), slow ? kSlowEventNs * state.slowness : 0);
  At(turn.end_ns, [this, process, event = std::move(event)] { Handle(process, event); });
}

void SimWorld::Wake(int64_t process) {
  Process& state = processes_.at(process);
  state.wakes = false;
  if (!state.alive) return;
  if (state.frozen_until_ns > now_ns()) {
    state.wakes = true;
    At(state.frozen_until_ns, [this, process] { Wake(process); });
    return;
  }
  std::deque<Event> backlog = std::move(state.backlog);
  state.backlog.clear();
  for (Event& event : backlog) Deliver(process, std::move(event));
}

void SimWorld::Handle(int64_t process, const Event& event) {
  Process& state = processes_.at(process);
  if (!state.alive || Park(process, event)) return;
  try {
    Dispatch(&state, event);
  } catch (const SimCrash&) {
    Kill(process, "was killed at its crash point");
  }
  if (event.kind != Event::Kind::kMessage) return;
  const int64_t sender = network_.Took(event.id, process);
  if (sender == 0) return;
  At(now_ns(), [this, sender, id = event.id] { Deliver(sender, {Event::Kind::kRoom, id, {}}); });
}

void SimWorld::Dispatch(Process* state, const Event& event) {
  SimProcess& code = *state->code;
  switch (event.kind) {
    case Event::Kind::kStart:
      return code.OnStart();
    case Event::Kind::kOpened:
      return code.OnOpened(event.id);
    case Event::Kind::kMessage:
      return code.OnMessage(event.id, event.bytes);
    case Event::Kind::kRoom:
      return code.OnRoom(event.id);
    case Event::Kind::kClosed:
      return code.OnClosed(event.id);
    case Event::Kind::kTimer:
      return code.OnTimer(event.id);
  }
}

void SimWorld::End(int64_t process, const SimExit& exit, bool silent) {
  Process& state = processes_.at(process);
  if (!std::exchange(state.alive, false)) return;
  state.backlog.clear();
  network_.Die(process, silent);
  if (!on_exit_) return;
  // Of a host that is gone the launcher learns as anybody does: nothing answers.
  const double seen_ns =
      silent ? options_.stream_timeout_ns : kExitSeenNsMax * static_cast<double>(random_.Uniform());
  At(now_ns() + seen_ns, [this, exit] { on_exit_(exit); });
}

void SimWorld::Kill(int64_t process, const std::string& how) {
  End(process, {process, /*clean=*/false, how}, /*silent=*/false);
}

void SimWorld::LoseHost(int32_t host) {
  for (auto& [id, process] : processes_) {
    if (process.host == host) End(id, {id, false, "was on a host that is lost"}, /*silent=*/true);
  }
}

void SimWorld::Freeze(int64_t process, double until_ns) {
  Process& state = processes_.at(process);
  state.frozen_until_ns = std::max(state.frozen_until_ns, until_ns);
}

void SimWorld::SlowDown(int64_t process, double factor, double until_ns) {
  Process& state = processes_.at(process);
  state.slowness = factor;
  state.slow_until_ns = until_ns;
}

void SimWorld::SetClockRate(int32_t host, double rate) { ClockOf(host).SetRate(now_ns(), rate); }
void SimWorld::JumpWallClock(int32_t host, int64_t by_ns) { ClockOf(host).Jump(by_ns); }

}  // namespace lockstep
