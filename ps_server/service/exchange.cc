#include "ps_server/service/exchange.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "ps_server/wire/row_frame.h"

namespace lockstep {
namespace {

constexpr int64_t kHeaderBytesKept = 1024;  // beside a payload that is kept as it came

PsFrame MakeRefused(const absl::Status& status) {
  PsFrame frame;
  frame.set_kind(REFUSED);
  frame.set_code(static_cast<int32_t>(status.code()));
  frame.set_reason(status.message().data(), status.message().size());
  for (const std::string& member : BlamedBy(status)) frame.add_blamed(member);
  return frame;
}

}  // namespace

void Exchange::Opened(int64_t stream, const std::string& token) {
  streams_[stream].opened_ns = clock_.NowNs();
  if (token != token_) {
    Refuse(stream, absl::PermissionDeniedError("wrong token; pass the run's --token"));
  } else if (streams_.size() > kStreamsMax) {
    Refuse(stream, absl::ResourceExhaustedError(
                       absl::StrCat("more than ", kStreamsMax, " streams at one server")));
  }
}

bool Exchange::Alive(int64_t stream) const {
  const auto found = streams_.find(stream);
  return found != streams_.end() && !found->second.closing;
}

void Exchange::Refuse(int64_t stream, const absl::Status& status) {
  if (!Alive(stream)) return;
  StreamState& state = streams_[stream];
  state.closing = true;
  const auto owner = stream_of_.find(state.index);
  if (owner != stream_of_.end() && owner->second == stream) stream_of_.erase(owner);
  outgoing_.push_back({stream, {.header = MakeRefused(status), .last = true}});
  ++counters_.refused_streams;
}

void Exchange::Received(int64_t stream, std::span<const Bytes> slices,
                        std::shared_ptr<const void> owner) {
  const auto found = streams_.find(stream);
  CHECK(found != streams_.end()) << "stream " << stream << " was never opened";
  StreamState& state = found->second;
  const int64_t bytes = CountBytes(slices);
  absl::StatusOr<Frame> frame = DecodeFrame(slices);
  const Traffic received = {.received_bytes = bytes, .received_messages = 1};
  if (state.closing) return books_.BookOutside(received);
  if (bytes > config_.limits.message_bytes_max) {
    frame = absl::ResourceExhaustedError(absl::StrCat("frame of ", bytes,
                                                      " bytes exceeds limits.message_bytes_max ",
                                                      config_.limits.message_bytes_max));
  }
  absl::Status status = frame.status();
  if (status.ok()) {
    // What a frame has beside its payload would be held as long as the payload.
    if (bytes - frame->payload_bytes <= kHeaderBytesKept) frame->owner = std::move(owner);
    status = Dispatch(stream, &state, *frame);
  } else {
    ++counters_.malformed_frames;
  }
  const bool to_successor = state.peer == Peer::kSuccessor;
  if (!status.ok() && to_successor) {
    GiveUp(status);
  } else if (!status.ok()) {
    Refuse(stream, status);
  }
  // Booked only now, when it is known whether the frame was taken: a refused one may name any step.
  // What a successor sent may be no frame at all: its stream is given up, not refused.
  if (state.closing || !frame.ok()) return books_.BookOutside(received);
  if (to_successor) {
    books_.BookReplication(frame->header.shard(), frame->header.version(), received);
  } else {
    books_.Book(frame->header, received);
  }
}

absl::Status Exchange::Dispatch(int64_t stream, StreamState* state, const Frame& frame) {
  const PsFrame& header = frame.header;
  if (state->peer == Peer::kSuccessor) return FromSuccessor(stream, state, frame);
  if (header.kind() == HELLO) {
    if (state->hellos.size() >= kHellosMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", kHellosMax, " HELLOs wait on one stream"));
    }
    state->hellos.push_back(header);
    Greet(stream);
    return absl::OkStatus();
  }
  if (state->peer == Peer::kStranger) {
    return absl::InvalidArgumentError("a stream begins with one HELLO for each shard");
  }
  if (state->peer == Peer::kPredecessor) return FromPredecessor(stream, state, frame);
  return FromWorker(stream, state, frame);
}

absl::Status Exchange::FromWorker(int64_t stream, StreamState* state, const Frame& frame) {
  const PsFrame& header = frame.header;
  if (header.worker() != state->index || header.incarnation() != state->incarnation ||
      header.epoch() != config_.epoch) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame of worker ", header.worker(), ", incarnation ", header.incarnation(),
                     ", epoch ", header.epoch(), " on the stream of worker ", state->index,
                     ", incarnation ", state->incarnation, ", epoch ", config_.epoch));
  }
  if (header.kind() == PING) return OnPing(stream, state, frame);
  if (!state->owed.contains(header.shard())) {
    return absl::InvalidArgumentError(absl::StrCat("worker ", state->index, " speaks to shard ",
                                                   header.shard(), " without HELLO"));
  }
  Seat* seat = &seats_.at(header.shard());
  const UpdateId id = {header.worker(), header.incarnation(), header.step(), header.shard()};
  const ShardChunk chunk = {header.offset(), header.total(), frame.payload, frame.owner};
  switch (header.kind()) {
    case INIT:
      Drive(seat, ShardEvent(InitEvent{id, chunk}), stream);
      return absl::OkStatus();
    case PUSH:
      return OnPush(stream, state, seat, frame);
    case PULL:
      return OnPull(stream, state, seat, frame);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a worker sends no frame of kind ", static_cast<int>(header.kind())));
  }
}

absl::Status Exchange::OnPush(int64_t stream, StreamState* state, Seat* seat, const Frame& frame) {
  const PsFrame& header = frame.header;
  const UpdateId id = {header.worker(), header.incarnation(), header.step(), header.shard()};
  const ShardChunk chunk = {header.offset(), header.total(), frame.payload, frame.owner};
  std::optional<ShardRows> rows;
  if (header.has_rows()) {
    ASSIGN_OR_RETURN(rows, RowsOf(*seat, frame));
  }
  seat->pushed_steps[static_cast<size_t>(header.worker())] = header.step();
  const int64_t duplicates = counters_.duplicates;
  Drive(seat, ShardEvent(PushEvent{id, chunk, header.base(), rows}), stream);
  if (rows.has_value() && counters_.duplicates == duplicates && Alive(stream)) {
    counters_.rows_pushed += static_cast<int64_t>(rows->rows.size());
  }
  if (!header.pulls() || !Alive(stream)) return absl::OkStatus();
  int64_t& pulled = state->pulled[header.shard()];
  if (header.step() <= pulled) return absl::OkStatus();  // a chunk that comes twice asks once
  pulled = header.step();
  return OnPull(stream, state, seat, frame);
}

absl::StatusOr<ShardRows> Exchange::RowsOf(const Seat& seat, const Frame& frame) {
  absl::StatusOr<ShardRows> rows = DecodeRows(frame, seat.tables, config_.rules.wire_dtype);
  if (!rows.ok()) ++counters_.malformed_frames;
  return rows;
}

absl::Status Exchange::OnPull(int64_t stream, StreamState* state, Seat* seat, const Frame& frame) {
  const PsFrame& header = frame.header;
  if (state->owed[header.shard()] > 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("worker ", state->index, " pulls again before its last pull was answered"));
  }
  if (header.has_rows()) {
    ASSIGN_OR_RETURN(const bool whole, OnRowPull(seat, frame));
    if (!whole) return absl::OkStatus();
  } else {
    seat->row_pulls.erase(header.worker());
  }
  const UpdateId id = {header.worker(), header.incarnation(), header.step(), header.shard()};
  Drive(seat, ShardEvent(PullEvent{id}), stream);
  return absl::OkStatus();
}

// Whether all rows are named. There are no more than the shard has, since they ascend.
absl::StatusOr<bool> Exchange::OnRowPull(Seat* seat, const Frame& frame) {
  const PsFrame& header = frame.header;
  ASSIGN_OR_RETURN(const ShardRows rows, RowsOf(*seat, frame));
  Seat::RowPull& pull = seat->row_pulls[header.worker()];
  if (pull.rows.empty() || pull.asked || pull.step != header.step() ||
      pull.table.tensor != rows.table.tensor) {
    pull = {.step = header.step(), .table = rows.table, .rows = {}};
  }
  if (!pull.rows.empty() && !rows.rows.empty() && rows.rows.front() <= pull.rows.back()) {
    ++counters_.malformed_frames;
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", header.worker(), " pulls row ", rows.rows.front(), " of table ",
        rows.table.tensor, " after row ", pull.rows.back(), "; rows are ascending, each once"));
  }
  pull.rows.insert(pull.rows.end(), rows.rows.begin(), rows.rows.end());
  pull.asked = rows.last;
  return pull.asked;
}

// Only while nothing is trained, so that no measured step pays for it and its bytes are set-up's.
absl::Status Exchange::OnPing(int64_t stream, StreamState* state, const Frame& frame) {
  for (const auto& [shard, seat] : seats_) {
    if (!seat.copy.has_value()) continue;
    if (seat.pushed_steps[static_cast<size_t>(state->index)] > 0 ||
        seat.copy->shard().last_step(state->index) > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("worker ", state->index, " pings after its first push"));
    }
  }
  if (state->owes_pong) {
    return absl::ResourceExhaustedError(
        absl::StrCat("worker ", state->index, " pings again before its last answer was sent"));
  }
  std::string echo;
  echo.reserve(static_cast<size_t>(frame.payload_bytes));
  for (const Bytes piece : frame.payload) {
    echo.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  state->owes_pong = true;
  outgoing_.push_back({stream,
                       {.header = MakeHeader(PONG, state->index, frame.header.shard()),
                        .payload = PayloadOf(std::move(echo))}});
  return absl::OkStatus();
}

PsFrame Exchange::MakeHeader(PsKind kind, int32_t worker, int32_t shard) const {
  PsFrame header;
  header.set_kind(kind);
  header.set_worker(worker);
  header.set_shard(shard);
  header.set_epoch(config_.epoch);
  return header;
}

void Exchange::Closed(int64_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const StreamState& state = found->second;
  const auto owner = stream_of_.find(state.index);
  if (owner != stream_of_.end() && owner->second == stream) stream_of_.erase(owner);
  const bool lost = state.peer == Peer::kSuccessor && !state.closing;
  const int32_t server = state.index;
  streams_.erase(found);
  if (lost && !left_) LoseSuccessor(server);
}

void Exchange::RefuseLateStrangers(int64_t now_ns) {
  const int64_t timeout_ms = config_.limits.connect_timeout_ms;
  std::vector<int64_t> late;
  for (const auto& [stream, state] : streams_) {
    const bool waits = state.peer == Peer::kStranger && !state.closing;
    if (waits && now_ns - state.opened_ns >= timeout_ms * kNsPerMs) late.push_back(stream);
  }
  for (const int64_t stream : late) {
    const bool hello = !streams_[stream].hellos.empty();
    Refuse(stream, absl::DeadlineExceededError(
                       absl::StrCat(!hello         ? "no HELLO"
                                    : !configured_ ? "this server was told no run"
                                                   : "this server was told no later group",
                                    " within limits.connect_timeout_ms ", timeout_ms)));
  }
}

void Exchange::Tick() {
  const int64_t now_ns = clock_.NowNs();
  RefuseLateStrangers(now_ns);
  if (left_) return;
  for (auto& [shard, seat] : seats_) {
    if (seat.copy.has_value()) Drive(&seat, ShardEvent(TickEvent{}), 0);
  }
  KeepSuccessors(now_ns);
}

void Exchange::Report() {
  ReportRecovery(clock_.NowNs());
  books_.Close();
}

}  // namespace lockstep
