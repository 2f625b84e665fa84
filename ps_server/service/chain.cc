// The servers before and behind this one in its chains.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps_server/service/exchange.h"

namespace lockstep {
namespace {

constexpr int64_t kPauseMinMs = 10;
constexpr int64_t kPauseMaxMs = 1'000;

// One that is in another group already says FailedPrecondition: then this one is over too.
absl::Status StatusOf(const PsFrame& refused, const std::string& who) {
  const auto code = static_cast<absl::StatusCode>(refused.code());
  const bool known = refused.code() > 0 && code <= absl::StatusCode::kUnauthenticated;
  const bool over = code == absl::StatusCode::kFailedPrecondition;
  absl::Status status(over    ? absl::StatusCode::kAborted
                      : known ? code
                              : absl::StatusCode::kInternal,
                      absl::StrCat(who, " refused: ", refused.reason()));
  if (refused.blamed().empty()) return status;
  return Blame(status, {refused.blamed().begin(), refused.blamed().end()});
}

std::string ServerName(int32_t server) { return absl::StrCat("server ", server); }

}  // namespace

void Exchange::DialSuccessors() {
  for (const auto& [shard, seat] : seats_) {
    if (seat.place.successor.has_value()) (void)successors_[*seat.place.successor];
  }
  for (auto& [server, successor] : successors_) {
    successor.since_ns = std::max<int64_t>(1, clock_.NowNs());
    DialNow(server, &successor);
  }
}

void Exchange::DialNow(int32_t server, Successor* successor) {
  if (stopped_) return;
  const int64_t stream = next_dial_--;
  successor->stream = stream;
  StreamState& state = streams_[stream];
  state.opened_ns = clock_.NowNs();
  state.peer = Peer::kSuccessor;
  state.index = server;
  dials_.push_back({stream, server, config_.successors.at(server)});
  for (const auto& [shard, seat] : seats_) {
    if (seat.place.successor != server) continue;
    PsFrame hello = MakeHeader(HELLO, config_.server, shard);
    hello.set_from_server(true);
    hello.set_layout(FingerprintOf(*layout_));
    hello.set_description(Describe(*layout_));
    for (const int64_t count : layout_->tensor_counts) hello.add_tensor_counts(count);
    for (const int64_t row : layout_->row_elements) hello.add_row_elements(row);
    outgoing_.push_back({stream, {.header = std::move(hello)}});
  }
}

void Exchange::LoseSuccessor(int32_t server) {
  const auto found = successors_.find(server);
  if (found == successors_.end()) return;
  Successor& successor = found->second;
  const int64_t now_ns = clock_.NowNs();
  successor.stream = 0;
  successor.welcomed.clear();
  if (successor.since_ns == 0) {
    successor.since_ns = std::max<int64_t>(1, now_ns);
    successor.pause_ms = 0;
  }
  successor.pause_ms = std::max(successor.pause_ms, kPauseMinMs);
  successor.next_ns = now_ns + successor.pause_ms * kNsPerMs;
  successor.pause_ms = std::min(2 * successor.pause_ms, kPauseMaxMs);
}

void Exchange::KeepSuccessors(int64_t now_ns) {
  const Limits& limits = config_.limits;
  for (auto& [server, successor] : successors_) {
    if (successor.since_ns != 0 &&
        now_ns - successor.since_ns >= limits.connect_timeout_ms * kNsPerMs) {
      return GiveUp(
          Blame(absl::UnavailableError(absl::StrCat(
                    ServerName(server), " (", config_.successors.at(server).ToString(),
                    ") is not reached for limits.connect_timeout_ms ", limits.connect_timeout_ms)),
                {ServerName(server)}));
    }
    if (successor.stream == 0 && now_ns >= successor.next_ns) DialNow(server, &successor);
  }
  for (const auto& [shard, seat] : seats_) {
    const int64_t since_ns = seat.unconfirmed_since_ns;
    if (since_ns == 0 || now_ns - since_ns < limits.sync_timeout_ms * kNsPerMs) continue;
    const std::string successor = ServerName(*seat.place.successor);
    return GiveUp(
        Blame(absl::DeadlineExceededError(absl::StrCat(
                  successor, " has confirmed version ", seat.copy->confirmed(), " of ",
                  seat.copy->version(), " of shard ", shard,
                  ", and nothing more for limits.sync_timeout_ms ", limits.sync_timeout_ms)),
              {successor}));
  }
}

void Exchange::GiveUp(const absl::Status& why) {
  if (std::exchange(broken_, true)) return;
  const absl::Status status = Annotate(
      why, absl::StrCat("server ", config_.server, " can't replicate in epoch ", config_.epoch));
  if (events_.broken) events_.broken(config_.epoch, status);
}

absl::Status Exchange::FromSuccessor(int64_t stream, StreamState* state, const Frame& frame) {
  const PsFrame& header = frame.header;
  if (header.kind() == REFUSED) {
    state->closing = true;
    return StatusOf(header, ServerName(state->index));
  }
  const auto found = seats_.find(header.shard());
  Successor& successor = successors_[state->index];
  if (header.epoch() != config_.epoch || found == seats_.end() ||
      found->second.place.successor != state->index ||
      (header.kind() == REPLICATED && !successor.welcomed.contains(header.shard()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", state->index, " sent a frame of kind ",
                     static_cast<int>(header.kind()), " about shard ", header.shard(), " in epoch ",
                     header.epoch(), "; this is epoch ", config_.epoch));
  }
  Seat* seat = &found->second;
  if (header.kind() == WELCOME) {
    successor.since_ns = 0;
    successor.welcomed.insert(header.shard());
    Drive(seat, SuccessorEvent{header.initialized(), header.version(), header.layout()}, stream);
    return absl::OkStatus();
  }
  if (header.kind() == REPLICATED) {
    Drive(seat, ReplicatedEvent{header.epoch(), header.push(), header.version()}, stream);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a successor sends no frame of kind ", static_cast<int>(header.kind())));
}

absl::Status Exchange::FromPredecessor(int64_t stream, StreamState* state, const Frame& frame) {
  const PsFrame& header = frame.header;
  const auto parts = state->parts.find(header.shard());
  if (header.epoch() != config_.epoch || header.worker() != state->index ||
      parts == state->parts.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "frame of server ", header.worker(), ", epoch ", header.epoch(), ", shard ", header.shard(),
        " on the stream of server ", state->index, ", epoch ", config_.epoch));
  }
  Seat* seat = &seats_.at(header.shard());
  if (header.kind() == REPLICATE) {
    ASSIGN_OR_RETURN(std::optional<Replicate> message, parts->second.AddReplicate(frame));
    if (message.has_value()) {
      Drive(seat, ReplicateEvent{header.epoch(), *std::move(message)}, stream);
    }
    return absl::OkStatus();
  }
  if (header.kind() != STATE) {
    return absl::InvalidArgumentError(
        absl::StrCat("a predecessor sends no frame of kind ", static_cast<int>(header.kind())));
  }
  ASSIGN_OR_RETURN(std::optional<ShardState> taken, parts->second.AddState(frame));
  if (recovery_.has_value()) {
    recovery_->traffic += {.received_bytes = frame.payload_bytes, .received_messages = 1};
  }
  if (parts->second.taken_bytes() * 2 >= parts->second.total_bytes()) {
    Crash(CrashPoint::kDuringStateTransfer, header.version());
  }
  if (taken.has_value()) Drive(seat, StateEvent{header.epoch(), *std::move(taken)}, stream);
  return absl::OkStatus();
}

void Exchange::SendChain(Seat* seat, const CopyOutput& output) {
  const auto place = seat->place.successor.has_value() ? successors_.find(*seat->place.successor)
                                                       : successors_.end();
  // Without a stream nothing is lost: the copy sends it again once there is one.
  const bool up = place != successors_.end() && place->second.welcomed.contains(seat->shard);
  if (up && output.state_to_successor != nullptr) {
    Outgoing out;
    out.header = MakeHeader(STATE, config_.server, seat->shard);
    out.header.set_version(output.state_to_successor->version);
    out.payload = PayloadOf(output.state_to_successor);
    out.unit_bytes = 1;
    out.header.set_total(out.payload.bytes);
    seat->state_bytes += out.payload.bytes;
    outgoing_.push_back({place->second.stream, std::move(out)});
  }
  for (const Replicate& message : output.to_successor) {
    if (!up) break;
    Outgoing out;
    out.header = MakeHeader(REPLICATE, config_.server, seat->shard);
    out.header.set_replicated(EncodeReplicate(message));
    const bool update = message.kind == Replicate::Kind::kUpdate;
    out.header.set_version(update ? message.version : message.version + 1);
    if (message.payload != nullptr) {
      out.payload = PayloadOf(message.payload);
      out.header.set_total(static_cast<int64_t>(message.payload->size()));
    }
    out.unit_bytes = sizeof(float);
    outgoing_.push_back({place->second.stream, std::move(out)});
  }
  if (output.to_predecessor.has_value() && seat->place.predecessor.has_value()) {
    for (const auto& [stream, state] : streams_) {
      if (state.peer != Peer::kPredecessor || state.closing) continue;
      if (!state.parts.contains(seat->shard)) continue;
      PsFrame word = MakeHeader(REPLICATED, config_.server, seat->shard);
      word.set_version(output.to_predecessor->version);
      word.set_push(output.to_predecessor->sequence);
      outgoing_.push_back({stream, {.header = std::move(word)}});
    }
  }
  if (!output.caught_up) return;
  seat->joined = true;
  if (events_.caught_up) {
    events_.caught_up(config_.epoch, {seat->shard, *seat->place.successor, seat->state_bytes});
  }
  NoteExposure();
}

}  // namespace lockstep
