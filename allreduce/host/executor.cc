#include "allreduce/host/executor.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {

HostExecutor::HostExecutor(Link* link)
    : link_(link),
      outboxes_(static_cast<size_t>(link->world_size()) * static_cast<size_t>(link->channels())),
      recv_sequences_(outboxes_.size(), 0) {}

absl::Status HostExecutor::Run(const RankProgram& program, const ExecuteCall& call) {
  program_ = &program;
  call_ = call;
  RETURN_IF_ERROR(Prepare());
  while (true) {
    AdvanceAll();
    const bool finished = std::all_of(runs_.begin(), runs_.end(),
                                      [&](const LaneRun& run) { return run.tile == tiles_; });
    if (finished && AllSent()) return absl::OkStatus();
    RETURN_IF_ERROR(link_->Progress(call_.deadline_ns));
  }
}

void HostExecutor::AdvanceAll() {
  bool moved = true;
  while (moved) {  // again, since a lane may have waited for a later one
    moved = false;
    for (LaneRun& run : runs_) {
      while (Advance(&run)) moved = true;
    }
  }
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

absl::Status HostExecutor::Prepare() {
  element_bytes_ = SizeOf(call_.dtype);
  tile_elements_ = std::max<int64_t>(1, call_.tile_bytes / element_bytes_);
  const int64_t longest = (call_.count + program_->chunks - 1) / program_->chunks;
  tiles_ = std::max<int64_t>(1, (longest + tile_elements_ - 1) / tile_elements_);
  runs_.resize(program_->lanes.size());
  for (size_t i = 0; i < runs_.size(); ++i) {
    LaneRun& run = runs_[i];
    run.lane = &program_->lanes[i];
    run.move = 0;
    run.receiving = false;
    run.tile = run.lane->moves.empty() ? tiles_ : 0;
    for (const Move& move : run.lane->moves) {
      RETURN_IF_ERROR(CheckMove(move));
      if (move.send_to == kNone) continue;
      Outbox& outbox = outboxes_[Index(move.send_to, run.lane->channel)];
      if (outbox.slots.size() != static_cast<size_t>(program_->slots)) {
        outbox.slots.resize(static_cast<size_t>(program_->slots));  // all are free between calls
        outbox.next = 0;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status HostExecutor::CheckMove(const Move& move) const {
  if (move.in == kNone && move.out == kNone) {
    return absl::UnimplementedError("executor: a value that is passed on without being kept");
  }
  if (move.in != kNone && move.out != kNone && move.in != move.out) {
    return absl::UnimplementedError(
        absl::StrCat("executor: a value read from chunk ", move.in, " and written to ", move.out));
  }
  if (std::max(move.in, move.out) + move.count > program_->chunks) {
    return absl::UnimplementedError("executor: scratch chunks");
  }
  // The first tile is the longest.
  const auto bytes = static_cast<int64_t>(BytesOf(move, 0));
  if (bytes > call_.message_bytes_max && (move.recv_from != kNone || move.send_to != kNone)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a message of ", bytes, " bytes exceeds limits.message_bytes_max = ",
        call_.message_bytes_max, "; raise it or lower limits.chunk_bytes = ", call_.tile_bytes));
  }
  return absl::OkStatus();
}

bool HostExecutor::Advance(LaneRun* run) {
  if (run->tile == tiles_) return false;
  const Move& move = run->lane->moves[run->move];
  if (!run->receiving) {
    if (!MayStart(*run, move)) return false;
    run->value = PlaceFor(run, move);
    if (move.recv_from != kNone) {
      StartReceive(run, move);
      return false;
    }
  } else if (!run->request.done) {
    return false;
  }
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

// A value that goes on is made in the slot it is sent from.
std::span<std::byte> HostExecutor::PlaceFor(LaneRun* run, const Move& move) {
  const size_t bytes = BytesOf(move, run->tile);
  if (move.send_to == kNone && IntoData(move)) {
    return {At(PieceOf(move.out, run->tile).first), bytes};
  }
  std::vector<std::byte>* place = &run->own_bytes;
  if (move.send_to != kNone) {
    Outbox& outbox = outboxes_[Index(move.send_to, run->lane->channel)];
    place = &outbox.slots[outbox.next].bytes;
  }
  if (place->size() < bytes) place->resize(bytes);
  return {place->data(), bytes};
}

bool HostExecutor::IntoData(const Move& move) const {
  return move.recv_from != kNone && move.in == kNone && move.count == 1;
}

void HostExecutor::StartReceive(LaneRun* run, const Move& move) {
  RecvRequest& request = run->request;
  request.peer = move.recv_from;
  request.payload = run->value;
  request.expected = MessageHeader{};
  request.expected.channel = static_cast<uint16_t>(run->lane->channel);
  request.expected.epoch = link_->epoch();
  request.expected.fingerprint = call_.fingerprint;
  request.expected.sequence = recv_sequences_[Index(move.recv_from, run->lane->channel)]++;
  request.expected.payload_bytes = run->value.size();
  request.expected.tile = static_cast<uint32_t>(run->tile);
  run->receiving = true;
  link_->PostRecv(&request);
}

void HostExecutor::Finish(LaneRun* run, const Move& move) {
  if (move.in != kNone) {
    const bool fold = move.recv_from != kNone;
    ForPieces(move.in, move, *run, [&](std::byte* data, std::byte* value, int64_t count) {
      if (fold) {
        Fold(call_.dtype, call_.op, data, value, count);
      } else {
        std::memcpy(value, data, static_cast<size_t>(count * element_bytes_));
      }
    });
  }
  if (move.out != kNone) {
    ForPieces(move.out, move, *run, [&](std::byte* data, std::byte* value, int64_t count) {
      if (data != value) std::memcpy(data, value, static_cast<size_t>(count * element_bytes_));
    });
  }
  if (move.send_to != kNone) Send(run, move);
}

void HostExecutor::Send(LaneRun* run, const Move& move) {
  Outbox& outbox = outboxes_[Index(move.send_to, run->lane->channel)];
  SendRequest& request = outbox.slots[outbox.next].request;
  outbox.next = (outbox.next + 1) % outbox.slots.size();
  request.peer = move.send_to;
  request.payload = run->value;
  request.header = MessageHeader{};
  request.header.channel = static_cast<uint16_t>(run->lane->channel);
  request.header.epoch = link_->epoch();
  request.header.fingerprint = call_.fingerprint;
  request.header.sequence = outbox.sequence++;
  request.header.payload_bytes = run->value.size();
  request.header.move = static_cast<uint32_t>(run->move);
  request.header.tile = static_cast<uint32_t>(run->tile);
  link_->PostSend(&request);
}

template <typename Visit>
void HostExecutor::ForPieces(int32_t first, const Move& move, const LaneRun& run,
                             const Visit& visit) const {
  std::byte* value = run.value.data();
  for (int32_t chunk = first; chunk < first + move.count; ++chunk) {
    const Piece piece = PieceOf(chunk, run.tile);
    if (piece.count == 0) continue;  // memcpy wants pointers even for nothing
    visit(At(piece.first), value, piece.count);
    value += piece.count * element_bytes_;
  }
}

HostExecutor::Piece HostExecutor::PieceOf(int32_t chunk, int64_t tile) const {
  const int64_t base = call_.count / program_->chunks;
  const int64_t longer = call_.count % program_->chunks;
  const int64_t begin = chunk * base + std::min<int64_t>(chunk, longer);
  const int64_t length = base + (chunk < longer ? 1 : 0);
  const int64_t skipped = std::min(tile * tile_elements_, length);
  return {begin + skipped, std::min(tile_elements_, length - skipped)};
}

std::byte* HostExecutor::At(int64_t element) const {
  return static_cast<std::byte*>(call_.data) + element * element_bytes_;
}

size_t HostExecutor::BytesOf(const Move& move, int64_t tile) const {
  const int32_t first = move.in != kNone ? move.in : move.out;
  int64_t elements = 0;
  for (int32_t chunk = first; chunk < first + move.count; ++chunk) {
    elements += PieceOf(chunk, tile).count;
  }
  return static_cast<size_t>(elements * element_bytes_);
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
