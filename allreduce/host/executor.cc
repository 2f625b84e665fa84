#include "allreduce/host/executor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {

HostExecutor::HostExecutor(Link* link, const Clock& clock)
    : link_(link),
      clock_(clock),
      outboxes_(static_cast<size_t>(link->world_size()) * static_cast<size_t>(link->channels())),
      recv_sequences_(outboxes_.size(), 0) {}

absl::Status HostExecutor::Run(const RankPart& part, const ExecuteCall& call) {
  RETURN_IF_ERROR(Begin(part, call));
  while (!Advance()) RETURN_IF_ERROR(link_->Progress(call_.deadline_ns));
  return absl::OkStatus();
}

bool HostExecutor::Advance() {
  if (log_ != nullptr) LogSends();
  bool moved = true;
  while (moved) {  // again, since a lane may have waited for a later one
    moved = false;
    for (LaneRun& run : runs_) {
      while (AdvanceLane(&run)) moved = true;
    }
  }
  const bool finished = std::all_of(runs_.begin(), runs_.end(),
                                    [&](const LaneRun& run) { return run.tile == tiles_; });
  if (!finished || !AllSent()) return false;
  if (log_ != nullptr) LogSends();
  return true;
}

std::vector<int> HostExecutor::WaitingFor() const {
  std::set<int> peers;
  for (const LaneRun& run : runs_) {
    if (run.receiving) peers.insert(run.request.peer);
  }
  for (const Outbox& outbox : outboxes_) {
    for (const Slot& slot : outbox.slots) {
      if (!slot.request.done) peers.insert(slot.request.peer);
    }
  }
  return {peers.begin(), peers.end()};
}

absl::Status HostExecutor::Begin(const RankPart& part, const ExecuteCall& call) {
  part_ = &part;
  call_ = call;
  element_bytes_ = SizeOf(call_.dtype);
  layout_ = {call_.count, part_->chunks, std::max<int64_t>(1, call_.tile_bytes / element_bytes_)};
  tiles_ = layout_.Tiles();
  const auto scratch_bytes =
      static_cast<size_t>(layout_.ScratchElements(part_->scratch) * element_bytes_);
  if (scratch_.size() < scratch_bytes) scratch_.resize(scratch_bytes);
  owners_.assign(static_cast<size_t>(part_->scratch), kNone);
  in_place_.clear();
  runs_.resize(part_->lanes.size());
  for (size_t i = 0; i < runs_.size(); ++i) {
    LaneRun& run = runs_[i];
    run.lane = &part_->lanes[i];
    run.move = 0;
    run.receiving = false;
    run.tile = run.lane->moves.empty() ? tiles_ : 0;
    RETURN_IF_ERROR(PrepareLane(*run.lane, static_cast<int32_t>(i)));
  }
  return absl::OkStatus();
}

absl::Status HostExecutor::PrepareLane(const Lane& lane, int32_t index) {
  for (const Move& move : lane.moves) {
    RETURN_IF_ERROR(CheckMove(move));
    RETURN_IF_ERROR(ClaimScratch(move, index));
    if (move.send_to == kNone) continue;
    Outbox& outbox = outboxes_[Index(move.send_to, lane.channel)];
    if (outbox.slots.size() == static_cast<size_t>(part_->slots)) continue;
    outbox.slots.resize(static_cast<size_t>(part_->slots));  // all are free between calls
    outbox.next = 0;
  }
  return absl::OkStatus();
}

absl::Status HostExecutor::CheckMove(const Move& move) const {
  if (move.in == kNone && move.out == kNone) {
    return absl::UnimplementedError("executor: a value that is passed on without being kept");
  }
  if (move.recv_from == kNone && move.in == kNone) {
    return absl::UnimplementedError("executor: a value made of neither a message nor a chunk");
  }
  const bool both = move.in != kNone && move.out != kNone;
  if (both && move.in == move.out && move.fold) {
    return absl::UnimplementedError(absl::StrCat("executor: chunk ", move.in, " folded twice"));
  }
  const int32_t apart = both ? std::abs(move.in - move.out) : 0;
  if (apart % part_->chunks != 0 || (apart != 0 && apart < move.count)) {
    return absl::UnimplementedError(absl::StrCat("executor: ", move.count, " chunks read from ",
                                                 move.in, " and written to ", move.out,
                                                 ", which are others or overlap"));
  }
  CHECK_LE(std::max(move.in, move.out) + move.count, part_->chunks + part_->scratch);
  // The first tile is the longest.
  const auto bytes = static_cast<int64_t>(BytesOf(move, 0));
  if (bytes > call_.message_bytes_max && (move.recv_from != kNone || move.send_to != kNone)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a message of ", bytes, " bytes exceeds limits.message_bytes_max = ",
        call_.message_bytes_max, "; raise it or lower limits.chunk_bytes = ", call_.tile_bytes));
  }
  return absl::OkStatus();
}

// Lanes may be at different tiles and scratch has room for one, so it can't be shared.
absl::Status HostExecutor::ClaimScratch(const Move& move, int32_t lane) {
  for (const int32_t first : {move.in, move.out}) {
    if (first == kNone) continue;
    for (int32_t chunk = first; chunk < first + move.count; ++chunk) {
      if (!layout_.IsScratch(chunk)) continue;
      int32_t& owner = owners_[static_cast<size_t>(chunk - part_->chunks)];
      if (owner == kNone) owner = lane;
      if (owner == lane) continue;
      return absl::UnimplementedError(absl::StrCat("executor: scratch chunk ", chunk,
                                                   " used by lanes ", owner, " and ", lane,
                                                   "; one lane alone may"));
    }
  }
  return absl::OkStatus();
}

bool HostExecutor::AdvanceLane(LaneRun* run) {
  if (run->tile == tiles_) return false;
  const Move& move = run->lane->moves[run->move];
  if (!run->receiving) {
    if (!MayStart(*run, move)) return false;
    if (move.recv_from != kNone) StartReceive(run, move);
  }
  if (run->receiving && !run->request.done) return false;
  Finish(run, move);
  run->receiving = false;
  if (++run->move == run->lane->moves.size()) {
    run->move = 0;
    ++run->tile;
  }
  return true;
}

bool HostExecutor::MayStart(const LaneRun& run, const Move& move) {
  if (move.wait_lane != kNone) {
    const LaneRun& other = runs_[static_cast<size_t>(move.wait_lane)];
    const bool done = other.tile > run.tile ||
                      (other.tile == run.tile && other.move > static_cast<size_t>(move.wait_move));
    if (!done) return false;
  }
  if (move.send_to == kNone) return true;
  const Outbox& outbox = outboxes_[Index(move.send_to, run.lane->channel)];
  return outbox.slots[outbox.next].request.done;
}

// Where every byte of a value is written once: what stays is made in `out` and sent from there,
// what is sent as it is goes out of `in`, the rest is made in the slot that it is sent from.
HostExecutor::Stands HostExecutor::PlaceOf(const Move& move) const {
  if (move.send_to == kNone) return Stands::kInOut;
  if (!InOnePiece(move)) return Stands::kInSlot;
  if (move.out != kNone) return Stands::kInOut;
  return move.recv_from == kNone ? Stands::kInIn : Stands::kInSlot;
}

std::span<std::byte> HostExecutor::SlotBytes(const LaneRun& run, const Move& move) {
  Outbox& outbox = outboxes_[Index(move.send_to, run.lane->channel)];
  std::vector<std::byte>& place = outbox.slots[outbox.next].bytes;
  const size_t bytes = BytesOf(move, run.tile);
  if (place.size() < bytes) place.resize(bytes);
  return {place.data(), bytes};
}

std::span<std::byte> HostExecutor::PlaceForMessage(LaneRun* run, const Move& move) {
  if (PlaceOf(move) == Stands::kInSlot) return SlotBytes(*run, move);
  const size_t bytes = BytesOf(move, run->tile);
  if (move.in == kNone && !move.fold && InOnePiece(move)) return {At(move.out, run->tile), bytes};
  if (run->own_bytes.size() < bytes) run->own_bytes.resize(bytes);
  return {run->own_bytes.data(), bytes};
}

void HostExecutor::StartReceive(LaneRun* run, const Move& move) {
  RecvRequest& request = run->request;
  run->message = PlaceForMessage(run, move);
  AboutToWrite(run->message);
  request.peer = move.recv_from;
  request.payload = run->message;
  request.expected = MessageHeader{};
  request.expected.channel = static_cast<uint16_t>(run->lane->channel);
  request.expected.epoch = link_->epoch();
  request.expected.fingerprint = call_.fingerprint;
  request.expected.sequence = recv_sequences_[Index(move.recv_from, run->lane->channel)]++;
  request.expected.payload_bytes = run->message.size();
  request.expected.tile = static_cast<uint32_t>(run->tile);
  run->receiving = true;
  if (log_ != nullptr) run->posted_ns = clock_.NowNs();
  link_->PostRecv(&request);
}

void HostExecutor::Finish(LaneRun* run, const Move& move) {
  if (log_ != nullptr && move.recv_from != kNone) LogReceive(*run);
  const Stands stands = PlaceOf(move);
  std::byte* value = nullptr;
  if (stands == Stands::kInSlot) {
    value = SlotBytes(*run, move).data();
  } else if (move.recv_from != kNone) {
    value = run->message.data();
  }
  for (int32_t i = 0; i < move.count && stands != Stands::kInIn; ++i) {
    const int32_t chunk = (move.in != kNone ? move.in : move.out) + i;
    Parts parts;
    parts.count = layout_.PieceOf(chunk, run->tile).count;
    if (parts.count == 0) continue;  // memcpy wants pointers even for nothing
    parts.value = value;
    if (move.in != kNone) parts.in = At(move.in + i, run->tile);
    if (move.out != kNone) parts.out = At(move.out + i, run->tile);
    const auto bytes = static_cast<size_t>(parts.count * element_bytes_);
    if (parts.out != nullptr && parts.out != parts.value) AboutToWrite({parts.out, bytes});
    if (stands == Stands::kInSlot) {
      MakeToSend(move, parts);
    } else {
      MakeToKeep(move, parts);
    }
    if (value != nullptr) value += bytes;
  }
  if (move.send_to != kNone) Send(*run, move);
}

void HostExecutor::MakeToSend(const Move& move, const Parts& parts) const {
  if (parts.in != nullptr) Put(parts.in, parts.value, move.recv_from != kNone, parts.count);
  if (move.fold) Put(parts.out, parts.value, true, parts.count);
  if (parts.out != nullptr) Put(parts.value, parts.out, false, parts.count);
}

// The last addition is made in `out`: its operands come in the other order, which changes no bit.
void HostExecutor::MakeToKeep(const Move& move, const Parts& parts) const {
  if (parts.value == nullptr) return Put(parts.in, parts.out, move.fold, parts.count);
  const bool in_is_out = parts.in == parts.out;
  if (parts.in != nullptr && !in_is_out) Put(parts.in, parts.value, true, parts.count);
  if (parts.value != parts.out) Put(parts.value, parts.out, move.fold || in_is_out, parts.count);
}

void HostExecutor::Put(const std::byte* source, std::byte* target, bool fold, int64_t count) const {
  if (fold) {
    Fold(call_.dtype, call_.op, source, target, count);
  } else {
    std::memcpy(target, source, static_cast<size_t>(count * element_bytes_));
  }
}

void HostExecutor::Send(const LaneRun& run, const Move& move) {
  Outbox& outbox = outboxes_[Index(move.send_to, run.lane->channel)];
  Slot& slot = outbox.slots[outbox.next];
  const Stands stands = PlaceOf(move);
  SendRequest& request = slot.request;
  request.payload = stands == Stands::kInSlot
                        ? SlotBytes(run, move)
                        : std::span(At(stands == Stands::kInOut ? move.out : move.in, run.tile),
                                    BytesOf(move, run.tile));
  outbox.next = (outbox.next + 1) % outbox.slots.size();
  if (log_ != nullptr) {
    const int64_t now_ns = clock_.NowNs();
    LogSend(&slot, now_ns);  // the one before, if the link took it at once
    slot.posted_ns = now_ns;
    slot.to_log = true;
  }
  request.peer = move.send_to;
  request.header = MessageHeader{};
  request.header.channel = static_cast<uint16_t>(run.lane->channel);
  request.header.epoch = link_->epoch();
  request.header.fingerprint = call_.fingerprint;
  request.header.sequence = outbox.sequence++;
  request.header.payload_bytes = request.payload.size();
  request.header.move = static_cast<uint32_t>(run.move);
  request.header.tile = static_cast<uint32_t>(run.tile);
  link_->PostSend(&request);
  if (!request.done && stands != Stands::kInSlot) in_place_.push_back(&slot);
}

// Values that are still to be sent out of `place` are saved first.
void HostExecutor::AboutToWrite(std::span<const std::byte> place) {
  for (size_t i = 0; i < in_place_.size();) {
    Slot& slot = *in_place_[i];
    std::span<const std::byte>& payload = slot.request.payload;
    const bool met = std::less<>()(payload.data(), place.data() + place.size()) &&
                     std::less<>()(place.data(), payload.data() + payload.size());
    if (!slot.request.done && met) {
      slot.bytes.assign(payload.begin(), payload.end());
      payload = slot.bytes;
    } else if (!slot.request.done) {
      ++i;
      continue;
    }
    in_place_[i] = in_place_.back();
    in_place_.pop_back();
  }
}

void HostExecutor::LogSends() {
  const int64_t now_ns = clock_.NowNs();
  for (Outbox& outbox : outboxes_) {
    for (Slot& slot : outbox.slots) LogSend(&slot, now_ns);
  }
}

void HostExecutor::LogSend(Slot* slot, int64_t now_ns) {
  const SendRequest& request = slot->request;
  if (!slot->to_log || !request.done) return;
  slot->to_log = false;
  log_->Add({request.peer, request.header.channel, request.header.sequence, /*sent=*/true,
             slot->posted_ns, now_ns, static_cast<int64_t>(request.header.payload_bytes)});
}

void HostExecutor::LogReceive(const LaneRun& run) {
  const RecvRequest& request = run.request;
  log_->Add({request.peer, request.expected.channel, request.expected.sequence, /*sent=*/false,
             run.posted_ns, clock_.NowNs(), static_cast<int64_t>(request.expected.payload_bytes)});
}

std::byte* HostExecutor::At(int32_t chunk, int64_t tile) {
  if (layout_.IsScratch(chunk)) {
    return scratch_.data() + layout_.ScratchFirst(chunk) * element_bytes_;
  }
  return static_cast<std::byte*>(call_.data) + layout_.PieceOf(chunk, tile).first * element_bytes_;
}

// Do all chunks of the move lie one behind the other, in the data and in scratch? Tiles of several
// chunks don't.
bool HostExecutor::InOnePiece(const Move& move) const { return move.count == 1 || tiles_ == 1; }

size_t HostExecutor::BytesOf(const Move& move, int64_t tile) const {
  const int32_t first = move.in != kNone ? move.in : move.out;
  return static_cast<size_t>(layout_.ElementsOf(first, move.count, tile) * element_bytes_);
}

size_t HostExecutor::Index(int32_t peer, int32_t channel) const {
  CHECK(peer >= 0 && peer < link_->world_size()) << "peer " << peer;
  CHECK(channel >= 0 && channel < link_->channels()) << "channel " << channel;
  return static_cast<size_t>(peer) * static_cast<size_t>(link_->channels()) +
         static_cast<size_t>(channel);
}

bool HostExecutor::AllSent() const {
  return std::all_of(outboxes_.begin(), outboxes_.end(), [](const Outbox& outbox) {
    return std::all_of(outbox.slots.begin(), outbox.slots.end(),
                       [](const Slot& slot) { return slot.request.done; });
  });
}

}  // namespace lockstep
