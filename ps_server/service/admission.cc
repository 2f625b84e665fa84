// Which group this server is in, and who may speak to it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/member/group_state.h"
#include "base/status.h"
#include "ps_server/service/exchange.h"

namespace lockstep {
namespace {

// What a state holds at most of each element: parameters, previous ones, two slots of an optimizer.
constexpr int64_t kStateBytesPerElement = 16;
constexpr int64_t kStateBytesPerWorker = 256;
constexpr int64_t kStateBytesBeside = 4096;

std::string SenderOf(const PsFrame& hello) {
  return absl::StrCat(hello.from_server() ? "server " : "worker ", hello.worker());
}

std::string FirstDifference(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return absl::StrCat(a.size(), " tensors against ", b.size());
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  return absl::StrCat("tensor ", x - a.begin(), " has ", *x, " elements against ", *y);
}

// What a shard begins with: it was saved as it is now, or has to be cut anew.
absl::StatusOr<ShardState> StateFor(const ShardOptions& options,
                                    const std::vector<ShardState>& parts) {
  const bool fits = parts.size() == 1 && parts[0].shard == options.shard &&
                    parts[0].offset == options.range.offset && parts[0].parameters != nullptr &&
                    parts[0].parameters->size() == static_cast<size_t>(options.range.count);
  if (fits) return parts[0];
  return Recut(parts, options.shard, options.range.offset, options.range.count);
}

}  // namespace

absl::Status Exchange::CheckConfig(const PsServerConfig& config) const {
  if (configured_ && config.epoch <= config_.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", config_.server, " is configured already, for epoch ", config_.epoch,
                     "; the next one is later, not ", config.epoch));
  }
  if (config.server < 0 || config.server >= config.servers || config.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("server ", config.server, " of ", config.servers,
                                                   " for ", config.world_size, " workers"));
  }
  for (const auto& [shard, place] : config.places) {
    const bool known = !place.successor.has_value() || config.successors.contains(*place.successor);
    if (shard >= 0 && shard < config.servers && known && place.epoch == config.epoch) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("server ", config.server, " has a place for shard ", shard, " of ",
                     config.servers, " in epoch ", place.epoch, " of ", config.epoch,
                     known ? "" : ", and no address of its successor"));
  }
  return absl::OkStatus();
}

absl::Status Exchange::Configure(PsServerConfig config) {
  RETURN_IF_ERROR(CheckConfig(config));
  if (config.places.empty()) config.places[config.server].epoch = config.epoch;
  if (config.present.empty()) {
    config.present.assign(static_cast<size_t>(config.world_size), true);
  }
  if (configured_) {
    (void)Leave(absl::AbortedError(absl::StrCat("epoch ", config.epoch, " has begun")));
  }
  if (!configured_ && config.epoch > kFirstEpoch) recovery_ = ServerRecovery();  // a replacement
  if (recovery_.has_value()) recovery_->epoch = config.epoch;
  std::map<int32_t, Seat> seats;
  std::vector<int32_t> heads;
  for (const auto& [shard, place] : config.places) {
    const auto known = seats_.find(shard);
    if (known != seats_.end()) seats[shard] = std::move(known->second);
    seats[shard].shard = shard;
    seats[shard].place = place;
    seats[shard].joined = false;
    if (place.head) heads.push_back(shard);
  }
  seats_ = std::move(seats);
  config_ = std::move(config);
  configured_ = true;
  left_ = false;
  broken_ = false;
  books_.Open(config_.rules.mode, config_.present, heads);
  // Without all its copies this server can't be in the group: who comes hears why.
  absl::Status settled = layout_.has_value() ? Settle() : absl::OkStatus();
  if (!settled.ok()) (void)Leave(settled);
  GreetWaiting();
  return settled;
}

std::vector<HeldShard> Exchange::Leave(const absl::Status& cause) {
  if (!left_) {
    const int64_t now_ns = clock_.NowNs();
    ReportRecovery(now_ns);
    left_ = true;
    recovery_ = ServerRecovery();
    recovery_->cause = cause;
    recovery_->broken_ns = now_ns;
    duplicates_before_ = counters_.duplicates;
    for (auto& [stream, state] : streams_) {
      if (state.peer != Peer::kStranger) Refuse(stream, cause);
    }
    successors_.clear();
    dials_.clear();
  }
  std::vector<HeldShard> held;
  for (const auto& [shard, seat] : seats_) {
    if (seat.copy.has_value() && seat.copy->has_state()) {
      held.push_back({shard, seat.copy->version()});
    }
  }
  return held;
}

void Exchange::GreetWaiting() {
  std::vector<int64_t> waiting;
  for (const auto& [stream, state] : streams_) {
    if (!state.hellos.empty() && !state.closing) waiting.push_back(stream);
  }
  for (const int64_t stream : waiting) Greet(stream);
}

// Those of a later group stay: this server will hear of it too.
void Exchange::Greet(int64_t stream) {
  if (!configured_) return;
  std::vector<PsFrame> hellos = std::exchange(streams_[stream].hellos, {});
  for (PsFrame& hello : hellos) {
    if (hello.epoch() > config_.epoch) {
      streams_[stream].hellos.push_back(std::move(hello));
      continue;
    }
    const absl::Status status = Admit(stream, hello);
    if (!status.ok()) return Refuse(stream, status);
  }
}

absl::Status Exchange::Admit(int64_t stream, const PsFrame& hello) {
  if (hello.epoch() != config_.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat(SenderOf(hello), " is in epoch ", hello.epoch(), ", server ", config_.server,
                     left_ ? " has left epoch " : " in epoch ", config_.epoch));
  }
  // It has only not heard yet that its group is dead, and goes on in the next one.
  if (left_) return recovery_->cause;
  const StreamState& state = streams_[stream];
  const bool same = state.peer == Peer::kStranger ||
                    ((state.peer == Peer::kPredecessor) == hello.from_server() &&
                     state.index == hello.worker() && state.incarnation == hello.incarnation());
  if (!same || state.owed.contains(hello.shard()) || state.parts.contains(hello.shard())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a stream begins with one HELLO for each shard; ", SenderOf(hello),
                     ", incarnation ", hello.incarnation(), ", says it for shard ", hello.shard(),
                     " on the stream of ", state.peer == Peer::kPredecessor ? "server " : "worker ",
                     state.index, ", incarnation ", state.incarnation));
  }
  const auto found = seats_.find(hello.shard());
  if (found == seats_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", config_.server, " has no place for shard ", hello.shard(),
                     " in epoch ", config_.epoch, "; ", SenderOf(hello), " asks for it"));
  }
  RETURN_IF_ERROR(CheckLayout(hello, SenderOf(hello)));
  return hello.from_server() ? AdmitPredecessor(stream, &found->second, hello)
                             : AdmitWorker(stream, &found->second, hello);
}

bool Exchange::present(int32_t worker) const {
  return worker < 0 || worker >= config_.world_size || config_.present[static_cast<size_t>(worker)];
}

absl::Status Exchange::AdmitWorker(int64_t stream, Seat* seat, const PsFrame& hello) {
  const int32_t worker = hello.worker();
  if (!seat->place.head || !present(worker)) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", config_.server, " in epoch ", config_.epoch, ": ",
                     seat->place.head ? absl::StrCat("worker ", worker, " is not in the group")
                                      : absl::StrCat("shard ", hello.shard(), " has another head"),
                     "; worker ", worker, " asks for shard ", hello.shard()));
  }
  // Its refusal goes to this stream: the worker has no other yet, or one that is older.
  CopyOutput attached =
      seat->copy->Handle(ShardEvent(AttachEvent{worker, hello.incarnation()}), clock_.NowNs());
  if (!attached.refusals.empty()) return attached.refusals[0].status;
  RETURN_IF_ERROR(attached.fault);
  const auto older = stream_of_.find(worker);
  if (older != stream_of_.end() && older->second != stream) {
    Refuse(older->second, absl::FailedPreconditionError(absl::StrCat(
                              "worker ", worker, " has opened a newer stream, incarnation ",
                              hello.incarnation())));
  }
  stream_of_[worker] = stream;
  StreamState& state = streams_[stream];
  state.peer = Peer::kWorker;
  state.index = worker;
  state.incarnation = hello.incarnation();
  state.owed[hello.shard()] = 0;
  seat->pushed_steps[static_cast<size_t>(worker)] = 0;
  seat->row_pulls.erase(worker);
  PsFrame welcome = MakeHeader(WELCOME, worker, hello.shard());
  welcome.set_version(seat->copy->version());
  welcome.set_initialized(seat->copy->has_state());
  welcome.set_step(seat->copy->shard().last_step(worker));
  outgoing_.push_back({stream, {.header = std::move(welcome)}});
  Deliver(seat, attached, stream);
  return absl::OkStatus();
}

absl::Status Exchange::AdmitPredecessor(int64_t stream, Seat* seat, const PsFrame& hello) {
  if (seat->place.predecessor != hello.worker()) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", hello.worker(), " is not before server ", config_.server,
                     " in the chain of shard ", hello.shard(), " in epoch ", config_.epoch));
  }
  for (const auto& [other, state] : streams_) {
    if (other == stream || state.peer != Peer::kPredecessor || state.closing) continue;
    if (state.index != hello.worker()) continue;
    Refuse(other, absl::FailedPreconditionError(
                      absl::StrCat("server ", hello.worker(), " has opened a newer stream")));
  }
  StreamState& state = streams_[stream];
  state.peer = Peer::kPredecessor;
  state.index = hello.worker();
  const int64_t elements = seat->bytes / SizeOf(config_.rules.wire_dtype);
  state.parts.emplace(
      hello.shard(),
      Assembly(elements, elements * kStateBytesPerElement +
                             config_.world_size * kStateBytesPerWorker + kStateBytesBeside));
  PsFrame welcome = MakeHeader(WELCOME, config_.server, hello.shard());
  welcome.set_version(seat->copy->version());
  welcome.set_initialized(seat->copy->has_state());
  welcome.set_layout(seat->copy->marks());
  outgoing_.push_back({stream, {.header = std::move(welcome)}});
  return absl::OkStatus();
}

absl::Status Exchange::CheckLayout(const PsFrame& hello, const std::string& sender) {
  const PsLayout layout = {
      .rules = config_.rules,
      .placement = config_.placement,
      .tensor_counts = {hello.tensor_counts().begin(), hello.tensor_counts().end()},
      .shards = config_.servers,
      .world_size = config_.world_size,
      .row_elements = {hello.row_elements().begin(), hello.row_elements().end()}};
  // Before anybody adds up the numbers of a stranger.
  RETURN_IF_ERROR(Annotate(CountElements(layout.tensor_counts).status(), sender));
  if (FingerprintOf(layout) != hello.layout()) {
    return absl::InvalidArgumentError(
        absl::StrCat(sender, " and server ", config_.server,
                     " disagree: ", hello.from_server() ? "it" : "worker", " has ",
                     hello.description(), "; server has ", Describe(layout)));
  }
  if (layout_.has_value()) {
    const bool counts = layout.tensor_counts == layout_->tensor_counts;
    if (counts && layout.row_elements == layout_->row_elements) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(sender, " and ", layout_of_, " disagree about the model: ",
                     counts ? "its tables have other rows"
                            : FirstDifference(layout.tensor_counts, layout_->tensor_counts),
                     " (", hello.description(), " against ", Describe(*layout_), ")"));
  }
  layout_ = layout;
  layout_of_ = sender;
  absl::Status seated = Settle();
  if (!seated.ok()) layout_.reset();
  return seated;
}

// The layout is known: every place gets its copy, with what it is to begin with.
absl::Status Exchange::Settle() {
  ASSIGN_OR_RETURN(const int64_t total, CountElements(layout_->tensor_counts));
  // Before anything is allocated for the numbers of a stranger.
  if (total / config_.servers > config_.limits.staged_bytes_max / kStagedBytesPerElement) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "server ", config_.server, ": a push of ", total / config_.servers,
        " parameters exceeds limits.staged_bytes_max ", config_.limits.staged_bytes_max));
  }
  ASSIGN_OR_RETURN(const std::vector<ShardRange> ranges,
                   Partition(layout_->tensor_counts, config_.servers, config_.placement));
  RETURN_IF_ERROR(CheckStaging(ranges));
  for (auto& [shard, seat] : seats_) {
    const ShardRange& range = ranges[static_cast<size_t>(shard)];
    ASSIGN_OR_RETURN(seat.tables, TablesIn(range, layout_->tensor_counts, layout_->row_elements));
    RETURN_IF_ERROR(SeatCopy(&seat, range));
  }
  DialSuccessors();
  NoteExposure();
  return absl::OkStatus();
}

// The bound is the server's: after losses it may head every shard that it has a place for, and has
// to take a push of each from every worker.
absl::Status Exchange::CheckStaging(const std::vector<ShardRange>& ranges) const {
  int64_t elements = 0;
  for (const auto& [shard, seat] : seats_) elements += ranges[static_cast<size_t>(shard)].count;
  const int64_t max = config_.limits.staged_bytes_max;
  if (elements <= max / kStagedBytesPerElement / config_.world_size) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "server ", config_.server, ": one push of each of ", config_.world_size, " workers to ",
      seats_.size() == 1 ? "its shard" : absl::StrCat("its ", seats_.size(), " shards"), " (",
      elements, " elements of 4 bytes each) does not fit limits.staged_bytes_max ", max,
      "; raise it or use more servers"));
}

absl::Status Exchange::SeatCopy(Seat* seat, const ShardRange& range) {
  const int32_t shard = seat->shard;
  const ShardOptions options = {.rules = config_.rules,
                                .shard = shard,
                                .range = range,
                                .layout = StateFingerprintOf(*layout_),
                                .world_size = config_.world_size,
                                .staged_bytes_max = config_.limits.staged_bytes_max,
                                .sync_timeout_ms = config_.limits.sync_timeout_ms};
  const int64_t known_version = seat->copy.has_value() ? seat->copy->version() : 0;
  if (config_.restore) seat->copy.reset();
  const auto restored = config_.restored.find(shard);
  // Whatever it begins with, it enters the epoch as those do that were there before.
  ChainPlace before = seat->place;
  --before.epoch;
  if (restored != config_.restored.end()) {
    Crash(CrashPoint::kRestoring, known_version);
    ASSIGN_OR_RETURN(const ShardState state, StateFor(options, restored->second));
    ASSIGN_OR_RETURN(seat->copy, ShardCopy::Restore(options, before, state));
    config_.restored.erase(restored);
    if (recovery_.has_value()) {
      recovery_->lost_versions += std::max<int64_t>(0, known_version - seat->copy->version());
    }
  } else if (!seat->copy.has_value()) {
    ASSIGN_OR_RETURN(seat->copy, ShardCopy::Create(options, before));
  }
  const CopyOutput entered =
      seat->copy->Handle(EpochEvent{seat->place, config_.present}, clock_.NowNs());
  RETURN_IF_ERROR(entered.fault);
  seat->copy->set_crash_hook(crash_);
  seat->pushed_steps.assign(static_cast<size_t>(config_.world_size), 0);
  seat->row_pulls.clear();
  seat->bytes = options.range.count * SizeOf(config_.rules.wire_dtype);
  seat->wire = WireVersions(config_.rules.wire_dtype);
  seat->early_ns = 0;
  seat->state_bytes = 0;
  seat->unconfirmed_since_ns = 0;
  seat->acknowledged = seat->copy->version();
  // Where the group begins is on disk, or was no cut's time.
  seat->cut.reset();
  if (seat->copy->has_state()) seat->cut = CutStepOf(*seat);
  std::vector<int64_t> last_steps;
  last_steps.reserve(static_cast<size_t>(config_.world_size));
  for (int32_t w = 0; w < config_.world_size; ++w) {
    last_steps.push_back(seat->copy->shard().last_step(w));
  }
  books_.Stand(shard, last_steps);
  Deliver(seat, entered, 0);
  return absl::OkStatus();
}

}  // namespace lockstep
