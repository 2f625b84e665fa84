#include "ps_server/service/exchange.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

int64_t CountBytes(std::span<const Bytes> slices) {
  int64_t bytes = 0;
  for (const Bytes slice : slices) bytes += static_cast<int64_t>(slice.size());
  return bytes;
}

PsFrame MakeRefused(const absl::Status& status) {
  PsFrame frame;
  frame.set_kind(REFUSED);
  frame.set_code(static_cast<int32_t>(status.code()));
  frame.set_reason(status.message().data(), status.message().size());
  for (const std::string& member : BlamedBy(status)) frame.add_blamed(member);
  return frame;
}

std::string FirstDifference(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return absl::StrCat(a.size(), " tensors against ", b.size());
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  return absl::StrCat("tensor ", x - a.begin(), " has ", *x, " elements against ", *y);
}

}  // namespace

absl::Status Exchange::Configure(const PsServerConfig& config) {
  if (config_.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", config_->server, " is configured already"));
  }
  if (config.server < 0 || config.server >= config.servers || config.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("server ", config.server, " of ", config.servers,
                                                   " for ", config.world_size, " workers"));
  }
  config_ = config;
  limits_ = config.limits;
  books_.Open(config.mode, config.world_size);
  std::vector<int64_t> waiting;
  for (const auto& [stream, state] : streams_) {
    if (state.hello.has_value() && !state.closing) waiting.push_back(stream);
  }
  for (const int64_t stream : waiting) Greet(stream);
  return absl::OkStatus();
}

void Exchange::Opened(int64_t stream, const std::string& token) {
  streams_[stream].opened_ns = clock_.NowNs();
  if (token != token_) {
    Refuse(stream, absl::PermissionDeniedError("wrong token; pass the run's --token"));
  } else if (streams_.size() > kStreamsMax) {
    Refuse(stream, absl::ResourceExhaustedError(
                       absl::StrCat("more than ", kStreamsMax, " streams at one server")));
  }
}

void Exchange::Refuse(int64_t stream, const absl::Status& status) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.closing) return;
  StreamState& state = found->second;
  state.closing = true;
  const auto owner = stream_of_.find(state.worker);
  if (owner != stream_of_.end() && owner->second == stream) stream_of_.erase(owner);
  outgoing_.push_back({stream, {.header = MakeRefused(status), .payload = {}, .last = true}});
  ++counters_.refused_streams;
}

void Exchange::Received(int64_t stream, std::span<const Bytes> slices) {
  const auto found = streams_.find(stream);
  CHECK(found != streams_.end()) << "stream " << stream << " was never opened";
  StreamState& state = found->second;
  const int64_t bytes = CountBytes(slices);
  absl::StatusOr<Frame> frame = DecodeFrame(slices);
  const Traffic received = {.received_bytes = bytes, .received_messages = 1};
  if (state.closing) {
    return books_.BookOutside(received);
  }
  if (bytes > limits_.message_bytes_max) {
    frame = absl::ResourceExhaustedError(absl::StrCat(
        "frame of ", bytes, " bytes exceeds limits.message_bytes_max ", limits_.message_bytes_max));
  }
  if (!frame.ok()) {
    books_.BookOutside(received);
    ++counters_.malformed_frames;
    return Refuse(stream, frame.status());
  }
  const absl::Status status = Dispatch(stream, &state, *frame);
  if (!status.ok()) Refuse(stream, status);
  // Booked only now, when it is known whether the frame was taken: a refused one may name any step.
  if (state.closing) return books_.BookOutside(received);
  books_.Book(frame->header, received);
}

absl::Status Exchange::Dispatch(int64_t stream, StreamState* state, const Frame& frame) {
  const PsFrame& header = frame.header;
  if (state->worker < 0) {
    if (header.kind() != HELLO || state->hello.has_value()) {
      return absl::InvalidArgumentError("a stream begins with one HELLO");
    }
    state->hello = header;
    if (config_.has_value()) Greet(stream);
    return absl::OkStatus();
  }
  if (header.worker() != state->worker || header.incarnation() != state->incarnation ||
      header.epoch() != config_->epoch) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame of worker ", header.worker(), ", incarnation ", header.incarnation(),
                     ", epoch ", header.epoch(), " on the stream of worker ", state->worker,
                     ", incarnation ", state->incarnation, ", epoch ", config_->epoch));
  }
  const UpdateId id = {header.worker(), header.incarnation(), header.step(), header.shard()};
  const ShardChunk chunk = {header.offset(), header.total(), frame.payload};
  switch (header.kind()) {
    case INIT:
      Deliver(Drive(InitEvent{id, chunk}), stream);
      return absl::OkStatus();
    case PUSH:
      state->pushed = true;
      Deliver(Drive(PushEvent{id, chunk}), stream);
      return absl::OkStatus();
    case PULL:
      if (state->owed > 0) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "worker ", state->worker, " pulls again before its last pull was answered"));
      }
      Deliver(Drive(PullEvent{id}), stream);
      return absl::OkStatus();
    case PING:
      return OnPing(stream, state, frame);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a worker sends no frame of kind ", static_cast<int>(header.kind())));
  }
}

// Only while nothing is trained, so that no measured step pays for it and its bytes are set-up's.
absl::Status Exchange::OnPing(int64_t stream, StreamState* state, const Frame& frame) {
  if (state->pushed || shard_->last_step(state->worker) > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", state->worker, " pings after its first push"));
  }
  if (state->owed > 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("worker ", state->worker, " pings again before its last answer was sent"));
  }
  Outgoing pong;
  pong.header = MakeHeader(PONG, state->worker);
  pong.payload.reserve(static_cast<size_t>(frame.payload_bytes));
  for (const Bytes piece : frame.payload) {
    pong.payload.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  ++state->owed;
  outgoing_.push_back({stream, std::move(pong)});
  return absl::OkStatus();
}

PsFrame Exchange::MakeHeader(PsKind kind, int32_t worker) const {
  PsFrame header;
  header.set_kind(kind);
  header.set_worker(worker);
  header.set_shard(config_->server);
  header.set_epoch(config_->epoch);
  return header;
}

void Exchange::Greet(int64_t stream) {
  const PsFrame hello = *std::exchange(streams_[stream].hello, std::nullopt);
  const absl::Status status = Admit(stream, hello);
  if (!status.ok()) Refuse(stream, status);
}

absl::Status Exchange::Admit(int64_t stream, const PsFrame& hello) {
  if (hello.epoch() != config_->epoch) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", hello.worker(), " is in epoch ",
                                                      hello.epoch(), ", server ", config_->server,
                                                      " in epoch ", config_->epoch));
  }
  RETURN_IF_ERROR(CheckLayout(hello));
  const ShardOutput attached = Drive(AttachEvent{hello.worker(), hello.incarnation()});
  if (!attached.refusals.empty()) return attached.refusals[0].status;
  const auto older = stream_of_.find(hello.worker());
  if (older != stream_of_.end()) {
    Refuse(older->second, absl::FailedPreconditionError(absl::StrCat(
                              "worker ", hello.worker(), " has opened a newer stream, incarnation ",
                              hello.incarnation())));
  }
  stream_of_[hello.worker()] = stream;
  StreamState& state = streams_[stream];
  state.worker = hello.worker();
  state.incarnation = hello.incarnation();
  Outgoing welcome;
  welcome.header = MakeHeader(WELCOME, hello.worker());
  welcome.header.set_version(shard_->version());
  outgoing_.push_back({stream, std::move(welcome)});
  return absl::OkStatus();
}

absl::Status Exchange::CheckLayout(const PsFrame& hello) {
  const PsLayout layout = {
      .mode = config_->mode,
      .order = config_->order,
      .tensor_counts = {hello.tensor_counts().begin(), hello.tensor_counts().end()},
      .shards = config_->servers,
      .world_size = config_->world_size,
      .sgd = config_->sgd};
  // Before anybody adds up the numbers of a stranger.
  RETURN_IF_ERROR(Annotate(CountElements(layout.tensor_counts).status(),
                           absl::StrCat("worker ", hello.worker())));
  if (FingerprintOf(layout) != hello.layout()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", hello.worker(), " and server ", config_->server, " disagree: worker has ",
        hello.description(), "; server has ", Describe(layout)));
  }
  if (!shard_.has_value()) return MakeShard(layout, hello.worker());
  if (layout.tensor_counts == layout_->tensor_counts) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "worker ", hello.worker(), " and worker ", layout_worker_,
      " disagree about the model: ", FirstDifference(layout.tensor_counts, layout_->tensor_counts),
      " (", hello.description(), " against ", Describe(*layout_), ")"));
}

absl::Status Exchange::MakeShard(const PsLayout& layout, int32_t worker) {
  ASSIGN_OR_RETURN(const int64_t total, CountElements(layout.tensor_counts));
  // Before anything is allocated for the numbers of a stranger.
  if (total / config_->servers > limits_.staged_bytes_max / 4) {
    return absl::ResourceExhaustedError(
        absl::StrCat("server ", config_->server, ": a push of ", total / config_->servers,
                     " parameters exceeds limits.staged_bytes_max ", limits_.staged_bytes_max));
  }
  ASSIGN_OR_RETURN(const std::vector<ShardRange> ranges,
                   Partition(layout.tensor_counts, config_->servers));
  const ShardOptions options = {.mode = layout.mode,
                                .order = layout.order,
                                .shard = config_->server,
                                .range = ranges[static_cast<size_t>(config_->server)],
                                .world_size = config_->world_size,
                                .sgd = layout.sgd,
                                .staged_bytes_max = limits_.staged_bytes_max,
                                .sync_timeout_ms = limits_.sync_timeout_ms};
  ASSIGN_OR_RETURN(shard_, Shard::Create(options));
  layout_ = layout;
  layout_worker_ = worker;
  return absl::OkStatus();
}

ShardOutput Exchange::Drive(const ShardEvent& event) {
  const int64_t start_ns = clock_.NowNs();
  ShardOutput output = shard_->Handle(event, start_ns);
  books_.SetDuplicates(shard_->duplicates());
  if (output.update.has_value()) {
    books_.Apply({.update = *output.update,
                  .shard = config_->server,
                  .apply_start_ns = start_ns,
                  .apply_ns = clock_.NowNs() - start_ns,
                  .traffic = {},
                  .replies = {}});
  }
  return output;
}

void Exchange::Deliver(const ShardOutput& output, int64_t sender) {
  for (const ShardReply& reply : output.replies) {
    const auto found = stream_of_.find(reply.worker);
    if (found == stream_of_.end()) continue;  // its stream broke; it will attach and pull again
    Outgoing out;
    out.header = MakeHeader(PARAMETERS, reply.worker);
    out.header.set_step(reply.step);
    out.header.set_version(reply.version);
    out.header.set_total(static_cast<int64_t>(reply.parameters->size()));
    out.parameters = reply.parameters;
    ++streams_[found->second].owed;
    outgoing_.push_back({found->second, std::move(out)});
  }
  for (const ShardRefusal& refusal : output.refusals) {
    const auto found = stream_of_.find(refusal.worker);
    Refuse(found == stream_of_.end() ? sender : found->second, refusal.status);
  }
}

void Exchange::Sending(const PsFrame& header, int64_t bytes, bool complete, int64_t stream) {
  books_.Book(header, {.sent_bytes = bytes, .sent_messages = 1});
  books_.Touch(header, clock_.NowNs());
  const bool answer = header.kind() == PARAMETERS || header.kind() == PONG;
  const auto found = streams_.find(stream);
  if (complete && answer && found != streams_.end()) --found->second.owed;
}

void Exchange::Sent(const PsFrame& header, bool complete) {
  books_.Touch(header, clock_.NowNs());
  if (complete && header.kind() == PARAMETERS) books_.Replied(header.worker(), header.step());
}

void Exchange::Closed(int64_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const auto owner = stream_of_.find(found->second.worker);
  if (owner != stream_of_.end() && owner->second == stream) stream_of_.erase(owner);
  streams_.erase(found);
}

void Exchange::Tick() {
  const int64_t now_ns = clock_.NowNs();
  std::vector<int64_t> late;
  for (const auto& [stream, state] : streams_) {
    const bool admitted = state.worker >= 0 || state.closing;
    if (!admitted && now_ns - state.opened_ns >= limits_.connect_timeout_ms * kNsPerMs) {
      late.push_back(stream);
    }
  }
  for (const int64_t stream : late) {
    Refuse(stream, absl::DeadlineExceededError(absl::StrCat(
                       config_.has_value() ? "no HELLO" : "this server was told no run",
                       " within limits.connect_timeout_ms ", limits_.connect_timeout_ms)));
  }
  if (shard_.has_value()) Deliver(Drive(TickEvent{}), -1);
}

PsCounters Exchange::counters() const {
  PsCounters counters = counters_;
  if (shard_.has_value()) counters.duplicates = shard_->duplicates();
  return counters;
}

}  // namespace lockstep
