#include "allreduce/schedule/timed_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

uint64_t Key(int32_t sender, int32_t receiver, int32_t channel) {
  CHECK(channel >= 0 && channel < (1 << 16)) << "channel " << channel;
  CHECK(sender < (1 << 24) && receiver < (1 << 24)) << sender << " -> " << receiver;
  return static_cast<uint64_t>(sender) << 40 | static_cast<uint64_t>(receiver) << 16 |
         static_cast<uint64_t>(channel);
}

uint8_t AdditionsOf(const Move& move) {
  const int operands = (move.recv_from != kNone ? 1 : 0) + (move.in != kNone ? 1 : 0) +
                       (move.fold && move.out != kNone ? 1 : 0);
  return static_cast<uint8_t>(std::max(0, operands - 1));
}

ChunkLayout LayoutOf(const Shape& shape, const SimulationOptions& options) {
  return {options.bytes / options.element_bytes, shape.chunks,
          std::max<int64_t>(1, options.tile_bytes / options.element_bytes)};
}

}  // namespace

TimedMachine::TimedMachine(const Shape& shape, const SimulationOptions& options, PartOfRank part_of)
    : shape_(shape),
      options_(options),
      part_of_(std::move(part_of)),
      layout_(LayoutOf(shape, options)),
      tiles_(layout_.Tiles()),
      ranks_(static_cast<size_t>(shape.world_size)) {}

absl::StatusOr<Simulation> TimedMachine::Run() {
  RETURN_IF_ERROR(StartAll());
  while (!events_.empty()) {
    RETURN_IF_ERROR(Handle(events_.Next()));
    AdvanceReady();
  }
  RETURN_IF_ERROR(StandsStill());
  result_.time_ns = events_.now_ns();
  for (const RankRun& rank : ranks_) {
    result_.sent_bytes += rank.sent_bytes;
    result_.sent_bytes_max = std::max(result_.sent_bytes_max, rank.sent_bytes);
    result_.received_bytes_max = std::max(result_.received_bytes_max, rank.received_bytes);
  }
  return result_;
}

// A rank that can do nothing without a message is generated again when the first one comes: until
// then it costs no memory.
absl::Status TimedMachine::StartAll() {
  for (int32_t rank = 0; rank < shape_.world_size; ++rank) {
    RETURN_IF_ERROR(Generate(rank));
    AdvanceReady();
    RankRun& run = At(rank);
    const bool begun = std::any_of(run.lanes.begin(), run.lanes.end(), [](const LaneRun& lane) {
      return lane.adding || lane.move > 0 || lane.tile > 0;
    });
    if (begun || run.open_lanes == 0) continue;
    std::vector<LaneRun>().swap(run.lanes);
    run.open_lanes = kNone;
  }
  return absl::OkStatus();
}

absl::Status TimedMachine::Generate(int32_t rank) {
  ASSIGN_OR_RETURN(const RankPart part, part_of_(rank));
  RankRun& run = At(rank);
  run.lanes.resize(part.lanes.size());
  run.open_lanes = 0;
  for (size_t lane = 0; lane < part.lanes.size(); ++lane) {
    const auto index = static_cast<int32_t>(lane);
    Compile(rank, index, part.lanes[lane]);
    if (run.lanes[lane].steps.empty()) {
      run.lanes[lane].tile = tiles_;
      continue;
    }
    ++run.open_lanes;
    ready_.push_back({rank, index});
  }
  for (LaneRun& lane : run.lanes) {  // waits name moves; those that are waited for must know
    for (const Wait& wait : lane.waits) {
      std::vector<Awaited>& awaited = run.lanes[static_cast<size_t>(wait.lane)].awaited;
      const auto at =
          std::lower_bound(awaited.begin(), awaited.end(), wait.move,
                           [](const Awaited& entry, int32_t move) { return entry.move < move; });
      if (at == awaited.end() || at->move != wait.move) awaited.insert(at, {wait.move, {}});
    }
  }
  return absl::OkStatus();
}

void TimedMachine::Compile(int32_t rank, int32_t lane_index, const Lane& lane) {
  LaneRun& run = At(rank).lanes[static_cast<size_t>(lane_index)];
  run.steps.reserve(lane.moves.size());
  const Move* before = nullptr;
  for (const Move& move : lane.moves) {
    Step step{.chunk = move.in != kNone ? move.in : move.out,
              .count = move.count,
              .additions = AdditionsOf(move),
              .waits = move.wait_lane != kNone};
    if (move.recv_from != kNone) {
      const bool same = before != nullptr && before->recv_from == move.recv_from;
      step.recv = same ? run.steps.back().recv : ConnectionOf(move.recv_from, rank, lane.channel);
      Connection& connection = connections_[static_cast<size_t>(step.recv)];
      connection.receiver_lane = lane_index;
    }
    if (move.send_to != kNone) {
      const bool same = before != nullptr && before->send_to == move.send_to;
      step.send = same ? run.steps.back().send : ConnectionOf(rank, move.send_to, lane.channel);
      Connection& connection = connections_[static_cast<size_t>(step.send)];
      connection.sender_lane = lane_index;
    }
    if (step.waits) run.waits.push_back({move.wait_lane, move.wait_move});
    run.steps.push_back(step);
    before = &move;
  }
}

int32_t TimedMachine::ConnectionOf(int32_t sender, int32_t receiver, int32_t channel) {
  const auto id = static_cast<int32_t>(connections_.size());
  const auto [it, inserted] = connection_ids_.try_emplace(Key(sender, receiver, channel), id);
  if (inserted) connections_.push_back({.sender = sender, .receiver = receiver});
  return it->second;
}

absl::Status TimedMachine::Handle(const Event& event) {
  if (event.kind == Kind::kAdded) {
    Finish({event.id, event.lane});
    ready_.push_back({event.id, event.lane});
    return absl::OkStatus();
  }
  Message& message = messages_[static_cast<size_t>(event.id)];
  Connection& connection = connections_[static_cast<size_t>(message.connection)];
  RankRun& rank = At(connection.receiver);
  if (event.kind == Kind::kAtPort) {
    const Port::Turn turn = rank.in.Reserve(events_.now_ns(), PortNs(message.bytes));
    events_.Add(turn.end_ns, {Kind::kHere, event.id, 0});
    return absl::OkStatus();
  }
  message.next = kNone;
  int32_t& link = connection.first == kNone ? connection.first
                                            : messages_[static_cast<size_t>(connection.last)].next;
  link = event.id;
  connection.last = event.id;
  rank.received_bytes += message.bytes;
  if (rank.open_lanes == kNone) return Generate(connection.receiver);
  if (connection.receiver_lane != kNone) {
    ready_.push_back({connection.receiver, connection.receiver_lane});
  }
  return absl::OkStatus();
}

void TimedMachine::AdvanceReady() {
  for (size_t i = 0; i < ready_.size(); ++i) {  // grows meanwhile
    const LaneName name = ready_[i];
    Advance(name);
  }
  ready_.clear();
}

void TimedMachine::Advance(const LaneName& name) {
  while (At(name.rank).open_lanes > 0) {
    RankRun& rank = At(name.rank);
    LaneRun& run = rank.lanes[static_cast<size_t>(name.lane)];
    if (run.tile == tiles_ || run.adding || !MayStart(rank, run)) return;
    const Step& step = run.steps[static_cast<size_t>(run.move)];
    if (step.additions > 0 && options_.cost.gamma_ns_per_byte > 0) {
      const double bytes = static_cast<double>(BytesOf(run, step)) * step.additions;
      const Port::Turn turn =
          rank.adder.Reserve(events_.now_ns(), bytes * options_.cost.gamma_ns_per_byte);
      run.adding = true;
      events_.Add(turn.end_ns, {Kind::kAdded, name.rank, name.lane});
      return;
    }
    Finish(name);
  }
}

bool TimedMachine::MayStart(const RankRun& rank, const LaneRun& run) const {
  const Step& step = run.steps[static_cast<size_t>(run.move)];
  if (step.waits && static_cast<int64_t>(AwaitedBy(rank, run).depths.size()) <= run.tile) {
    return false;
  }
  if (step.recv != kNone && connections_[static_cast<size_t>(step.recv)].first == kNone) {
    return false;
  }
  return step.send == kNone || connections_[static_cast<size_t>(step.send)].used < shape_.slots;
}

const TimedMachine::Awaited& TimedMachine::AwaitedBy(const RankRun& rank,
                                                     const LaneRun& run) const {
  const Wait& wait = run.waits[static_cast<size_t>(run.wait)];
  const std::vector<Awaited>& awaited = rank.lanes[static_cast<size_t>(wait.lane)].awaited;
  return *std::lower_bound(awaited.begin(), awaited.end(), wait.move,
                           [](const Awaited& entry, int32_t move) { return entry.move < move; });
}

void TimedMachine::Finish(const LaneName& name) {
  RankRun& rank = At(name.rank);
  LaneRun& run = rank.lanes[static_cast<size_t>(name.lane)];
  const Step& step = run.steps[static_cast<size_t>(run.move)];
  const int64_t bytes = BytesOf(run, step);
  run.adding = false;
  if (step.waits) {
    run.depth = std::max(run.depth, AwaitedBy(rank, run).depths[static_cast<size_t>(run.tile)]);
    ++run.wait;
  }
  if (step.recv != kNone) Take(&run, step.recv);
  if (step.send != kNone) Send(name.rank, run, step, bytes);
  const auto awaited = std::find_if(run.awaited.begin(), run.awaited.end(),
                                    [&](const Awaited& entry) { return entry.move == run.move; });
  if (awaited != run.awaited.end()) {
    awaited->depths.push_back(run.depth);
    WakeWaiting(name.rank, name.lane);
  }
  if (++run.move < static_cast<int32_t>(run.steps.size())) return;
  run.move = 0;
  run.wait = 0;
  if (++run.tile < tiles_ || --rank.open_lanes > 0) return;
  std::vector<LaneRun>().swap(rank.lanes);
}

// The message's slot is free now, which matters to a sender that had none.
void TimedMachine::Take(LaneRun* run, int32_t connection_id) {
  Connection& connection = connections_[static_cast<size_t>(connection_id)];
  const int32_t id = connection.first;
  Message& message = messages_[static_cast<size_t>(id)];
  connection.first = message.next;
  const bool was_full = connection.used-- == shape_.slots;
  run->depth = std::max(run->depth, message.depth);
  message.next = free_message_;
  free_message_ = id;
  if (was_full) ready_.push_back({connection.sender, connection.sender_lane});
}

void TimedMachine::Send(int32_t rank, const LaneRun& run, const Step& step, int64_t bytes) {
  int32_t id = free_message_;
  if (id == kNone) {
    id = static_cast<int32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    free_message_ = messages_[static_cast<size_t>(id)].next;
  }
  messages_[static_cast<size_t>(id)] = {
      .connection = step.send, .depth = run.depth + 1, .bytes = bytes};
  ++connections_[static_cast<size_t>(step.send)].used;
  RankRun& sender = At(rank);
  const Port::Turn turn = sender.out.Reserve(events_.now_ns(), PortNs(bytes));
  events_.Add(turn.begin_ns + options_.cost.latency_ns, {Kind::kAtPort, id, 0});
  sender.sent_bytes += bytes;
  ++result_.messages;
  result_.chain = std::max(result_.chain, run.depth + 1);
}

void TimedMachine::WakeWaiting(int32_t rank, int32_t lane) {
  const std::vector<LaneRun>& lanes = At(rank).lanes;
  for (size_t other = 0; other < lanes.size(); ++other) {
    const LaneRun& run = lanes[other];
    if (run.tile == tiles_ || run.adding) continue;
    const bool waits = run.steps[static_cast<size_t>(run.move)].waits &&
                       run.waits[static_cast<size_t>(run.wait)].lane == lane;
    if (waits) ready_.push_back({rank, static_cast<int32_t>(other)});
  }
}

int64_t TimedMachine::BytesOf(const LaneRun& run, const Step& step) const {
  if (step.chunk != kNone) {
    return layout_.ElementsOf(step.chunk, step.count, run.tile) * options_.element_bytes;
  }
  const int32_t first = connections_[static_cast<size_t>(step.recv)].first;
  return messages_[static_cast<size_t>(first)].bytes;
}

double TimedMachine::PortNs(int64_t bytes) const {
  return options_.cost.overhead_ns + static_cast<double>(bytes) * options_.cost.beta_ns_per_byte;
}

absl::Status TimedMachine::StandsStill() const {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankRun& run = ranks_[rank];
    if (run.open_lanes == 0) continue;
    std::string where = absl::StrCat("rank ", rank, " has not begun");
    for (size_t lane = 0; lane < run.lanes.size(); ++lane) {
      if (run.lanes[lane].tile == tiles_) continue;
      where = absl::StrCat("rank ", rank, " lane ", lane, " waits in move ", run.lanes[lane].move,
                           " of tile ", run.lanes[lane].tile);
      break;
    }
    return absl::FailedPreconditionError(absl::StrCat("simulate: the schedule stands still with ",
                                                      shape_.slots, " slots: ", where,
                                                      "; lockstep schedule verify shows what for"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
