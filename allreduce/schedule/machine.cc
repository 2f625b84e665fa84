#include "allreduce/schedule/machine.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

int32_t CountLanes(const Schedule& schedule) {
  size_t lanes = 0;
  for (const auto& rank : schedule.ranks) lanes += rank.size();
  return static_cast<int32_t>(lanes);
}

bool AnyRankHasSeveralLanes(const Schedule& schedule) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(),
                     [](const auto& lanes) { return lanes.size() > 1; });
}

std::string RankNames(const std::vector<uint64_t>& ranks) {
  std::vector<size_t> members;
  for (size_t rank = 0; rank < ranks.size() * 64; ++rank) {
    if (((ranks[rank / 64] >> (rank % 64)) & 1) != 0) members.push_back(rank);
  }
  return absl::StrCat("{", absl::StrJoin(members, ", "), "}");
}

int32_t CountRanks(const std::vector<uint64_t>& ranks) {
  int32_t count = 0;
  for (const uint64_t word : ranks) count += std::popcount(word);
  return count;
}

std::string LaneName(int32_t rank, int32_t lane, size_t move) {
  return absl::StrCat("rank ", rank, " lane ", lane, " move ", move);
}

}  // namespace

VerifyMachine::VerifyMachine(const Schedule& schedule, const Goal& goal, VerifyReport* report)
    : schedule_(schedule),
      goal_(goal),
      report_(report),
      races_(CountLanes(schedule), goal.meets || AnyRankHasSeveralLanes(schedule)) {
  const auto words = (static_cast<size_t>(schedule.world_size) + 63) / 64;
  cells_.resize(schedule.ranks.size());
  for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
    const auto r = static_cast<size_t>(rank);
    cells_[r].resize(static_cast<size_t>(schedule.chunks) + static_cast<size_t>(schedule.scratch));
    for (int32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      if (goal.holds[r][static_cast<size_t>(chunk)] == 0) continue;
      Value& value = At(rank, chunk).value;
      value.chunk = chunk;
      value.ranks.assign(words, 0);
      value.ranks[r / 64] = uint64_t{1} << (r % 64);
    }
    first_lane_.push_back(static_cast<int32_t>(lanes_.size()));
    for (const Lane& lane : schedule.ranks[r]) {
      lanes_.push_back({rank, static_cast<int32_t>(&lane - schedule.ranks[r].data()), &lane});
    }
  }
  for (size_t id = 0; id < lanes_.size(); ++id) {
    const LaneState& state = lanes_[id];
    for (const Move& move : state.data->moves) {
      const auto lane_id = static_cast<int32_t>(id);
      if (move.send_to != kNone) connections_[SendKey(state, move)].sender = lane_id;
      if (move.recv_from != kNone) connections_[RecvKey(state, move)].receiver = lane_id;
      if (move.wait_lane != kNone) {
        awaited_[{first_lane_[static_cast<size_t>(state.rank)] + move.wait_lane, move.wait_move}];
      }
    }
  }
}

void VerifyMachine::Run() {
  while (RunRound()) {
  }
  const auto stuck =
      std::find_if(lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane.finished(); });
  if (stuck != lanes_.end()) {
    ReportDeadlock(static_cast<int32_t>(stuck - lanes_.begin()));
    return;  // values and messages of a schedule that stands still say nothing more
  }
  ReportUnread();
  ReportWrongFinal();
  if (goal_.meets) ReportEarlyEnd();
}

bool VerifyMachine::RunRound() {
  ++round_;
  bool any = false;
  bool moved = true;
  while (moved) {  // a move frees a slot or ends a wait, so others may start in the same round
    moved = false;
    for (size_t id = 0; id < lanes_.size(); ++id) {
      while (Step(static_cast<int32_t>(id))) moved = true;
    }
    any = any || moved;
  }
  return any;
}

int32_t VerifyMachine::InputsAt(int32_t rank, int32_t chunk) const {
  return CountRanks(cells_[static_cast<size_t>(rank)][static_cast<size_t>(chunk)].value.ranks);
}

std::vector<std::vector<int32_t>> VerifyMachine::InputsUnderWay() const {
  std::vector<std::vector<int32_t>> inputs(
      cells_.size(), std::vector<int32_t>(static_cast<size_t>(schedule_.chunks)));
  for (const auto& [key, connection] : connections_) {
    for (const Message& message : connection.queue) {
      for (const Value& value : message.values) {
        if (value.empty()) continue;
        int32_t& most = inputs[static_cast<size_t>(key[0])][static_cast<size_t>(value.chunk)];
        most = std::max(most, CountRanks(value.ranks));
      }
    }
  }
  return inputs;
}

VerifyMachine::Key VerifyMachine::SendKey(const LaneState& state, const Move& move) const {
  return {state.rank, move.send_to, state.data->channel};
}

VerifyMachine::Key VerifyMachine::RecvKey(const LaneState& state, const Move& move) const {
  return {move.recv_from, state.rank, state.data->channel};
}

VerifyMachine::Blocked VerifyMachine::WhyBlocked(const LaneState& state) const {
  const Move& move = state.data->moves[state.next];
  if (move.wait_lane != kNone) {
    const int32_t on = first_lane_[static_cast<size_t>(state.rank)] + move.wait_lane;
    if (lanes_[static_cast<size_t>(on)].next <= static_cast<size_t>(move.wait_move)) {
      return {absl::StrCat("lane ", move.wait_lane, " to finish move ", move.wait_move), on};
    }
  }
  if (move.recv_from != kNone) {
    const Connection& connection = connections_.at(RecvKey(state, move));
    if (connection.queue.empty()) {
      return {absl::StrCat("a message from rank ", move.recv_from), connection.sender};
    }
  }
  const Connection& connection = connections_.at(SendKey(state, move));
  return {absl::StrCat("a free slot to rank ", move.send_to), connection.receiver};
}

bool VerifyMachine::CanStart(const LaneState& state) const {
  const Move& move = state.data->moves[state.next];
  if (move.wait_lane != kNone) {
    const int32_t on = first_lane_[static_cast<size_t>(state.rank)] + move.wait_lane;
    if (lanes_[static_cast<size_t>(on)].next <= static_cast<size_t>(move.wait_move)) return false;
  }
  if (move.recv_from != kNone) {
    const std::deque<Message>& queue = connections_.at(RecvKey(state, move)).queue;
    if (queue.empty() || queue.front().round == round_) return false;
  }
  if (move.send_to == kNone) return true;
  const size_t used = connections_.at(SendKey(state, move)).queue.size();
  return used < static_cast<size_t>(schedule_.slots);
}

bool VerifyMachine::Step(int32_t lane_id) {
  LaneState& state = lanes_[static_cast<size_t>(lane_id)];
  if (state.finished() || !CanStart(state)) return false;
  const Move& move = state.data->moves[state.next];
  races_.Begin(lane_id);
  if (move.wait_lane != kNone) {
    const int32_t on = first_lane_[static_cast<size_t>(state.rank)] + move.wait_lane;
    races_.Join(lane_id, awaited_.at({on, move.wait_move}));
  }
  std::vector<Value> values;
  if (move.recv_from != kNone) {
    std::deque<Message>& queue = connections_.at(RecvKey(state, move)).queue;
    Message message = std::move(queue.front());
    queue.pop_front();
    races_.Join(lane_id, message.clock);
    if (message.values.size() != static_cast<size_t>(move.count)) {
      Report(Fault::kSizeMismatch, state,
             absl::StrCat("receives ", move.count, " chunks, rank ", move.recv_from, " sent ",
                          message.values.size(), " in its move ", message.move));
    }
    values = std::move(message.values);
  }
  values.resize(static_cast<size_t>(move.count));
  values = Combine(lane_id, move, std::move(values));
  WriteOut(lane_id, move, values);
  if (move.send_to != kNone) {
    connections_.at(SendKey(state, move))
        .queue.push_back({std::move(values), races_.Snapshot(lane_id),
                          static_cast<int32_t>(state.next), round_});
  }
  const auto awaited = awaited_.find({lane_id, static_cast<int32_t>(state.next)});
  if (awaited != awaited_.end()) awaited->second = races_.Snapshot(lane_id);
  ++state.next;
  return true;
}

std::vector<VerifyMachine::Value> VerifyMachine::Combine(int32_t lane_id, const Move& move,
                                                         std::vector<Value> values) {
  const LaneState& state = lanes_[static_cast<size_t>(lane_id)];
  for (int32_t i = 0; i < move.count; ++i) {
    Value& value = values[static_cast<size_t>(i)];
    if (move.in != kNone) Read(lane_id, move.in + i, &value);
    if (move.fold) Read(lane_id, move.out + i, &value);
    if (value.empty() && (move.out != kNone || move.send_to != kNone)) {
      Report(Fault::kEmptyValue, state, "moves a value that nothing was put into");
    }
  }
  return values;
}

void VerifyMachine::Read(int32_t lane_id, int32_t chunk, Value* value) {
  const LaneState& state = lanes_[static_cast<size_t>(lane_id)];
  ReportRace(lane_id, chunk,
             races_.Read(state.rank, chunk, lane_id, static_cast<int32_t>(state.next)));
  const Value& read = At(state.rank, chunk).value;
  if (read.empty()) {
    Report(Fault::kEmptyValue, state, absl::StrCat("reads chunk ", chunk, ", which is empty"));
  }
  FoldInto(state, read, value);
}

void VerifyMachine::FoldInto(const LaneState& state, const Value& in, Value* value) {
  if (in.empty()) return;
  if (value->empty()) {
    *value = in;
    return;
  }
  if (in.chunk != value->chunk) {
    Report(
        Fault::kDifferentChunks, state,
        absl::StrCat("folds chunk ", in.chunk, " into a message that holds chunk ", value->chunk));
  }
  std::vector<uint64_t> twice(in.ranks.size(), 0);
  bool any = false;
  for (size_t word = 0; word < in.ranks.size(); ++word) {
    twice[word] = in.ranks[word] & value->ranks[word];
    value->ranks[word] |= in.ranks[word];
    any = any || twice[word] != 0;
  }
  if (any && in.chunk == value->chunk) {
    Report(
        Fault::kDoubleCount, state,
        absl::StrCat("folds ranks ", RankNames(twice), " of chunk ", in.chunk, " a second time"));
  }
}

void VerifyMachine::WriteOut(int32_t lane_id, const Move& move, const std::vector<Value>& values) {
  if (move.out == kNone) return;
  const LaneState& state = lanes_[static_cast<size_t>(lane_id)];
  const auto index = static_cast<int32_t>(state.next);
  for (int32_t i = 0; i < move.count; ++i) {
    const int32_t chunk = move.out + i;
    const Value& value = values[static_cast<size_t>(i)];
    ReportRace(lane_id, chunk, races_.Write(state.rank, chunk, lane_id, index));
    if (!value.empty() && value.chunk != HomeOf(schedule_, chunk)) {
      Report(Fault::kDifferentChunks, state,
             absl::StrCat("writes chunk ", value.chunk, " to ", chunk, ", a place of chunk ",
                          HomeOf(schedule_, chunk)));
    }
    At(state.rank, chunk) = {value, state.lane, index};
  }
}

void VerifyMachine::ReportRace(int32_t lane_id, int32_t chunk,
                               const RaceDetector::Access& conflict) {
  if (conflict.lane_id == kNone) return;
  const LaneState& other = lanes_[static_cast<size_t>(conflict.lane_id)];
  Report(Fault::kRace, lanes_[static_cast<size_t>(lane_id)],
         absl::StrCat("touches chunk ", chunk, " in no order with lane ", other.lane, " move ",
                      conflict.move, "; one of them must wait for the other"));
}

void VerifyMachine::Report(Fault fault, const LaneState& state, const std::string& what) {
  report_->Add({fault, state.rank, state.lane, static_cast<int32_t>(state.next), what});
}

void VerifyMachine::ReportDeadlock(int32_t lane_id) {
  // Each stuck lane waits for one other: walk until a lane comes again or nobody is left to wait
  // for.
  std::vector<int32_t> path;
  std::vector<std::string> steps;
  int32_t at = lane_id;
  while (at != kNone && !lanes_[static_cast<size_t>(at)].finished() &&
         std::find(path.begin(), path.end(), at) == path.end()) {
    const LaneState& state = lanes_[static_cast<size_t>(at)];
    const Blocked blocked = WhyBlocked(state);
    path.push_back(at);
    steps.push_back(
        absl::StrCat(LaneName(state.rank, state.lane, state.next), " waits for ", blocked.why));
    at = blocked.on;
  }
  const auto first = std::find(path.begin(), path.end(), at);  // end(): no cycle
  std::string what;
  if (first == path.end()) {
    what = absl::StrCat("chain: ", absl::StrJoin(steps, " -> "),
                        at == kNone ? ", and no lane will provide it" : ", which has finished");
  } else {
    steps.erase(steps.begin(), steps.begin() + (first - path.begin()));
    const LaneState& first_state = lanes_[static_cast<size_t>(*first)];
    what = absl::StrCat("cycle with ", schedule_.slots, " slots: ", absl::StrJoin(steps, " -> "),
                        " -> back to ",
                        LaneName(first_state.rank, first_state.lane, first_state.next));
  }
  const int32_t named = first == path.end() ? lane_id : *first;
  Report(Fault::kDeadlock, lanes_[static_cast<size_t>(named)], what);
}

void VerifyMachine::ReportUnread() {
  for (const auto& [key, connection] : connections_) {
    if (connection.queue.empty()) continue;
    const LaneState& sender = lanes_[static_cast<size_t>(connection.sender)];
    report_->Add({Fault::kUnreadMessage, sender.rank, sender.lane, connection.queue.front().move,
                  absl::StrCat(connection.queue.size(), " messages to rank ", key[1], " channel ",
                               key[2], " were never received")});
  }
}

std::vector<uint64_t> VerifyMachine::Wanted(int32_t chunk) const {
  std::vector<uint64_t> ranks((static_cast<size_t>(schedule_.world_size) + 63) / 64, 0);
  for (size_t r = 0; r < goal_.holds.size(); ++r) {
    if (goal_.holds[r][static_cast<size_t>(chunk)] != 0) ranks[r / 64] |= uint64_t{1} << (r % 64);
  }
  return ranks;
}

void VerifyMachine::ReportWrongFinal() {
  for (int32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
    const std::vector<uint64_t> wanted = Wanted(chunk);
    for (int32_t rank = 0; rank < schedule_.world_size; ++rank) {
      if (goal_.wants[static_cast<size_t>(rank)][static_cast<size_t>(chunk)] == 0) continue;
      const Cell& cell = At(rank, chunk);
      if (cell.value.chunk == chunk && cell.value.ranks == wanted) continue;
      report_->Add(
          {Fault::kWrongFinalValue, rank, cell.lane, cell.move,
           absl::StrCat("chunk ", chunk, " ends with ranks ", RankNames(cell.value.ranks),
                        " of chunk ", cell.value.chunk, ", expected ranks ", RankNames(wanted))});
    }
  }
}

void VerifyMachine::ReportEarlyEnd() {
  const auto n = static_cast<size_t>(schedule_.world_size);
  std::vector<std::vector<uint8_t>> heard(n, std::vector<uint8_t>(n, 0));  // [rank][of rank]
  for (size_t id = 0; id < lanes_.size(); ++id) {
    for (size_t other = 0; other < lanes_.size(); ++other) {
      if (!races_.Heard(static_cast<int32_t>(id), static_cast<int32_t>(other))) continue;
      heard[static_cast<size_t>(lanes_[id].rank)][static_cast<size_t>(lanes_[other].rank)] = 1;
    }
  }
  for (size_t rank = 0; rank < n; ++rank) {
    for (size_t other = 0; other < n; ++other) {
      if (rank == other || heard[rank][other] != 0) continue;
      report_->Add({Fault::kEarlyEnd, static_cast<int32_t>(rank), kNone, kNone,
                    absl::StrCat("may be through before rank ", other, " has come")});
    }
  }
}

}  // namespace lockstep
