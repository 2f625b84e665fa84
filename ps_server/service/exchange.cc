#include "ps_server/service/exchange.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// The step that a frame is about; 0 for start-up and start values.
int64_t StepOf(const PsFrame& header) {
  switch (header.kind()) {
    case PUSH:
      return header.step();
    case PULL:
    case PARAMETERS:
      return header.version();
    default:
      return 0;
  }
}

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
  outgoing_.push_back({stream, {MakeRefused(status), nullptr, /*last=*/true}});
  ++counters_.refused_streams;
}

// For frames that were taken: those are of the version served or of the next one, so that there
// are never more than two books. A late frame of a step whose event is out changes no event.
Traffic* Exchange::BookOf(const PsFrame& header) {
  const int64_t step = StepOf(header);
  const int64_t served = serving_.step.version;
  const bool open = step > served || (step == served && !serving_.reported);
  return step > 0 && open ? &steps_[step] : &outside_;
}

void Exchange::Received(int64_t stream, std::span<const Bytes> slices) {
  const auto found = streams_.find(stream);
  CHECK(found != streams_.end()) << "stream " << stream << " was never opened";
  StreamState& state = found->second;
  const int64_t bytes = CountBytes(slices);
  absl::StatusOr<Frame> frame = DecodeFrame(slices);
  const Traffic received = {.received_bytes = bytes, .received_messages = 1};
  if (state.closing) {
    outside_ += received;
    return;
  }
  if (bytes > limits_.message_bytes_max) {
    frame = absl::ResourceExhaustedError(absl::StrCat(
        "frame of ", bytes, " bytes exceeds limits.message_bytes_max ", limits_.message_bytes_max));
  }
  if (!frame.ok()) {
    outside_ += received;
    ++counters_.malformed_frames;
    return Refuse(stream, frame.status());
  }
  const absl::Status status = Dispatch(stream, &state, *frame);
  if (!status.ok()) Refuse(stream, status);
  // Booked only now, when it is known whether the frame was taken: a refused one may name any step.
  *(state.closing ? &outside_ : BookOf(frame->header)) += received;
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
      Deliver(Drive(PushEvent{id, chunk}), stream);
      return absl::OkStatus();
    case PULL:
      if (state->replying) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "worker ", state->worker, " pulls again before its last pull was answered"));
      }
      Deliver(Drive(PullEvent{id, header.version()}), stream);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a worker sends no frame of kind ", static_cast<int>(header.kind())));
  }
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
  welcome.header.set_kind(WELCOME);
  welcome.header.set_shard(config_->server);
  welcome.header.set_version(shard_->version());
  welcome.header.set_epoch(config_->epoch);
  outgoing_.push_back({stream, std::move(welcome)});
  return absl::OkStatus();
}

absl::Status Exchange::CheckLayout(const PsFrame& hello) {
  const PsLayout layout = {
      .tensor_counts = {hello.tensor_counts().begin(), hello.tensor_counts().end()},
      .shards = config_->servers,
      .world_size = config_->world_size,
      .sgd = config_->sgd};
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
  const ShardOptions options = {.shard = config_->server,
                                .count = ranges[static_cast<size_t>(config_->server)].count,
                                .world_size = config_->world_size,
                                .sgd = config_->sgd,
                                .staged_bytes_max = limits_.staged_bytes_max,
                                .sync_timeout_ms = limits_.sync_timeout_ms};
  ASSIGN_OR_RETURN(shard_, Shard::Create(options));
  layout_ = layout;
  layout_worker_ = worker;
  serving_.served.assign(static_cast<size_t>(config_->world_size), false);
  return absl::OkStatus();
}

ShardOutput Exchange::Drive(const ShardEvent& event) {
  const int64_t start_ns = clock_.NowNs();
  ShardOutput output = shard_->Handle(event, start_ns);
  if (output.update.has_value()) {
    Report();
    serving_.step = {};
    serving_.step.step = output.update->step;
    serving_.step.shard = config_->server;
    serving_.step.version = output.update->version;
    serving_.step.wait_ns = output.update->wait_ns;
    serving_.step.apply_ns = clock_.NowNs() - start_ns;
    serving_.served.assign(serving_.served.size(), false);
    serving_.reported = false;
  }
  return output;
}

void Exchange::Deliver(const ShardOutput& output, int64_t sender) {
  for (const ShardReply& reply : output.replies) {
    const auto found = stream_of_.find(reply.worker);
    if (found == stream_of_.end()) continue;  // its stream broke; it will attach and pull again
    Outgoing out;
    out.header.set_kind(PARAMETERS);
    out.header.set_worker(reply.worker);
    out.header.set_shard(config_->server);
    out.header.set_version(reply.version);
    out.header.set_total(static_cast<int64_t>(reply.parameters->size()));
    out.header.set_epoch(config_->epoch);
    out.parameters = reply.parameters;
    streams_[found->second].replying = true;
    outgoing_.push_back({found->second, std::move(out)});
  }
  for (const ShardRefusal& refusal : output.refusals) {
    const auto found = stream_of_.find(refusal.worker);
    Refuse(found == stream_of_.end() ? sender : found->second, refusal.status);
  }
}

void Exchange::Sent(const PsFrame& header, int64_t bytes, bool complete, int64_t stream) {
  *BookOf(header) += {.sent_bytes = bytes, .sent_messages = 1};
  if (!complete || header.kind() != PARAMETERS) return;
  const auto found = streams_.find(stream);
  if (found != streams_.end()) found->second.replying = false;
  if (header.version() != serving_.step.version) return;
  serving_.served[static_cast<size_t>(header.worker())] = true;
  if (std::count(serving_.served.begin(), serving_.served.end(), false) == 0) Report();
}

void Exchange::Report() {
  if (serving_.reported || serving_.served.empty()) return;
  serving_.reported = true;
  if (serving_.step.version == 0) {
    reported_set_up_ = outside_;
    if (events_.set_up) events_.set_up(outside_);
    return;
  }
  const auto book = steps_.extract(serving_.step.step);
  if (!book.empty()) serving_.step.traffic = book.mapped();
  serving_.step.duplicates = shard_->duplicates() - reported_duplicates_;
  reported_steps_ += serving_.step.traffic;
  reported_duplicates_ = shard_->duplicates();
  if (events_.step) events_.step(serving_.step);
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

Traffic Exchange::traffic() const {
  Traffic sum = outside_;
  sum += reported_steps_;
  for (const auto& [step, traffic] : steps_) sum += traffic;
  return sum;
}

Traffic Exchange::unreported() const { return traffic() - reported_set_up_ - reported_steps_; }

}  // namespace lockstep
