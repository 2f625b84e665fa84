#include "experiments/simulate/network.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {

SimNetwork::SimNetwork(const SimNetworkOptions& options, uint64_t seed, SimQueue* queue,
                       std::function<void(Arrival)> arrive)
    : options_(options), queue_(*queue), arrive_(std::move(arrive)), random_(seed, 1) {}

void SimNetwork::Place(int64_t process, int32_t host) {
  host_of_[process] = host;
  const double beta = options_.cost.beta_ns_per_byte;
  hosts_.try_emplace(host, Host{.in = {}, .out = {}, .in_beta = beta, .out_beta = beta});
}

void SimNetwork::SetCost(int32_t host, double in_beta_ns_per_byte, double out_beta_ns_per_byte) {
  hosts_[host].in_beta = in_beta_ns_per_byte;
  hosts_[host].out_beta = out_beta_ns_per_byte;
}

int64_t SimNetwork::Open(int64_t from, int64_t to, bool data) {
  const int64_t id = next_stream_++;
  Stream& stream = streams_[id];
  stream.data = data;
  stream.lanes[0].from = stream.lanes[1].to = from;
  stream.lanes[0].to = stream.lanes[1].from = to;
  Ship(id, 0, {.what = What::kOpened, .bytes = {}});
  return id;
}

bool SimNetwork::IsOpen(int64_t stream, int64_t at) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return false;
  return found->second.lanes[1 - Direction(found->second, at)].open;
}

bool SimNetwork::HasRoom(int64_t stream, int64_t from) const {
  if (!IsOpen(stream, from)) return false;
  const Stream& state = streams_.at(stream);
  return state.lanes[Direction(state, from)].under_way < options_.window;
}

void SimNetwork::Send(int64_t stream, int64_t from, std::string bytes) {
  if (!IsOpen(stream, from)) return;
  Stream& state = streams_.at(stream);
  const int own = Direction(state, from);
  ++state.lanes[own].under_way;
  ++messages_;
  sent_bytes_ += static_cast<int64_t>(bytes.size());
  Ship(stream, own, {.what = What::kMessage, .bytes = std::move(bytes)});
}

int64_t SimNetwork::Took(int64_t stream, int64_t by) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return 0;
  Lane& lane = found->second.lanes[1 - Direction(found->second, by)];
  --lane.under_way;
  return lane.from;
}

void SimNetwork::Close(int64_t stream, int64_t by) {
  if (!IsOpen(stream, by)) return;
  Stream& state = streams_[stream];
  const int own = Direction(state, by);
  state.lanes[1 - own].open = false;
  if (!state.lanes[own].open) {
    streams_.erase(stream);
  } else {
    Ship(stream, own, {.what = What::kClosed, .bytes = {}});
  }
}

void SimNetwork::Die(int64_t process, bool silent) {
  dead_[process] = silent;
  std::vector<int64_t> ended;
  for (const auto& [id, stream] : streams_) {
    if (stream.lanes[0].from == process || stream.lanes[1].from == process) ended.push_back(id);
  }
  for (const int64_t id : ended) {
    if (!silent) {
      Close(id, process);
      continue;
    }
    Stream& stream = streams_[id];
    const int own = Direction(stream, process);
    stream.lanes[1 - own].open = false;
    queue_.Add(queue_.now_ns() + options_.stream_timeout_ns, [this, id] { BreakStream(id); });
  }
}

bool SimNetwork::Gone(int64_t process) const { return dead_.contains(process); }

int32_t SimNetwork::HostOf(int64_t process) const {
  const auto found = host_of_.find(process);
  CHECK(found != host_of_.end()) << "process " << process << " has no host";
  return found->second;
}

// Takes the outgoing port now, and reaches the other one a latency later.
void SimNetwork::Ship(int64_t stream, int lane, Parcel parcel) {
  Lane& state = streams_[stream].lanes[lane];
  Host& host = hosts_[HostOf(state.from)];
  const auto bytes = static_cast<double>(parcel.bytes.size());
  const Port::Turn turn =
      host.out.Reserve(queue_.now_ns(), options_.cost.overhead_ns + bytes * host.out_beta);
  const double late = options_.jitter_ns * static_cast<double>(random_.Uniform());
  const double at = turn.begin_ns + options_.cost.latency_ns + late + SlowedNs(stream, lane);
  state.last_at_port = std::max(state.last_at_port, at);
  queue_.Add(state.last_at_port, [this, stream, lane, parcel = std::move(parcel)]() mutable {
    AtPort(stream, lane, std::move(parcel));
  });
}

void SimNetwork::AtPort(int64_t stream, int lane, Parcel parcel) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  Lane& state = found->second.lanes[lane];
  if (!state.open) return;
  if (!state.held.empty() || IsCut(stream, lane)) {
    state.held.push_back(std::move(parcel));
    Watch(stream, lane);
    return;
  }
  Enter(stream, lane, std::move(parcel));
}

void SimNetwork::Enter(int64_t stream, int lane, Parcel parcel) {
  Lane& state = streams_[stream].lanes[lane];
  ++state.moved;
  Host& host = hosts_[HostOf(state.to)];
  const auto bytes = static_cast<double>(parcel.bytes.size());
  const Port::Turn turn =
      host.in.Reserve(queue_.now_ns(), options_.cost.overhead_ns + bytes * host.in_beta);
  state.last_here = std::max(state.last_here, turn.end_ns);
  queue_.Add(state.last_here, [this, stream, lane, parcel = std::move(parcel)]() mutable {
    Here(stream, lane, std::move(parcel));
  });
}

void SimNetwork::Here(int64_t stream, int lane, Parcel parcel) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.lanes[lane].open) return;
  Lane& state = found->second.lanes[lane];
  const int64_t to = state.to;
  if (parcel.what == What::kOpened && Gone(to)) {
    if (!dead_[to]) {
      Ship(stream, 1 - lane, {.what = What::kClosed, .bytes = {}});  // its kernel refuses
    } else {
      queue_.Add(queue_.now_ns() + options_.stream_timeout_ns,
                 [this, stream] { BreakStream(stream); });
    }
    state.open = false;
    return;
  }
  if (parcel.what == What::kClosed) {
    state.open = false;
    if (!found->second.lanes[1 - lane].open) streams_.erase(found);
  }
  arrive_({parcel.what, stream, to, std::move(parcel.bytes)});
}

// A stream whose direction stands still for the timeout is given up, as keepalive does.
void SimNetwork::Watch(int64_t stream, int lane) {
  Lane& state = streams_[stream].lanes[lane];
  if (std::exchange(state.watched, true)) return;
  queue_.Add(queue_.now_ns() + options_.stream_timeout_ns,
             [this, stream, lane, moved = state.moved] {
               const auto found = streams_.find(stream);
               if (found == streams_.end()) return;
               Lane& then = found->second.lanes[lane];
               then.watched = false;
               if (then.held.empty()) return;
               if (then.moved == moved) {
                 BreakStream(stream);
               } else {
                 Watch(stream, lane);
               }
             });
}

void SimNetwork::BreakStream(int64_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const Stream state = std::move(found->second);
  streams_.erase(found);
  for (const Lane& lane : state.lanes) {
    if (!lane.open || Gone(lane.to)) continue;
    arrive_({What::kClosed, stream, lane.to, {}});
  }
}

bool SimNetwork::Applies(const Hindrance& hindrance, int64_t stream, int lane) const {
  const Stream& state = streams_.at(stream);
  return hindrance.until_ns > queue_.now_ns() && (state.data || !hindrance.data_only) &&
         HostOf(state.lanes[lane].from) == hindrance.from &&
         HostOf(state.lanes[lane].to) == hindrance.to;
}

bool SimNetwork::IsCut(int64_t stream, int lane) const {
  return std::any_of(hindrances_.begin(), hindrances_.end(), [&](const Hindrance& each) {
    return each.cut && Applies(each, stream, lane);
  });
}

double SimNetwork::SlowedNs(int64_t stream, int lane) {
  double slowed = 0;
  for (const Hindrance& each : hindrances_) {
    if (each.cut || !Applies(each, stream, lane)) continue;
    const double share = each.lateness.random ? static_cast<double>(random_.Uniform()) : 1;
    slowed += each.lateness.by_ns * share;
  }
  return slowed;
}

void SimNetwork::Cut(int32_t from, int32_t to, bool data_only, double until_ns) {
  hindrances_.push_back(
      {.from = from, .to = to, .data_only = data_only, .cut = true, .until_ns = until_ns});
  queue_.Add(until_ns, [this] { Heal(); });
}

void SimNetwork::Slow(int32_t from, int32_t to, bool data_only, const Lateness& lateness,
                      double until_ns) {
  hindrances_.push_back(
      {.from = from, .to = to, .data_only = data_only, .lateness = lateness, .until_ns = until_ns});
}

void SimNetwork::Clog(int32_t host, double for_ns) {
  hosts_[host].in.Reserve(queue_.now_ns(), for_ns);
  hosts_[host].out.Reserve(queue_.now_ns(), for_ns);
}

bool SimNetwork::Break(int32_t a, int32_t b) {
  for (auto at = streams_.rbegin(); at != streams_.rend(); ++at) {
    const int32_t from = HostOf(at->second.lanes[0].from);
    const int32_t to = HostOf(at->second.lanes[0].to);
    const bool between = (from == a && to == b) || (from == b && to == a);
    if (!between || !at->second.data) continue;
    BreakStream(at->first);
    return true;
  }
  return false;
}

std::vector<int32_t> SimNetwork::hosts() const {
  std::vector<int32_t> hosts;
  for (const auto& [host, state] : hosts_) hosts.push_back(host);
  return hosts;
}

void SimNetwork::Heal() {
  std::vector<std::pair<int64_t, int>> freed;
  for (const auto& [id, stream] : streams_) {
    for (const int lane : {0, 1}) {
      if (!stream.lanes[lane].held.empty() && !IsCut(id, lane)) freed.emplace_back(id, lane);
    }
  }
  for (const auto& [id, lane] : freed) {
    std::deque<Parcel> held = std::move(streams_[id].lanes[lane].held);
    streams_[id].lanes[lane].held.clear();
    for (Parcel& parcel : held) Enter(id, lane, std::move(parcel));
  }
  std::erase_if(hindrances_,
                [this](const Hindrance& each) { return each.until_ns <= queue_.now_ns(); });
}

}  // namespace lockstep
