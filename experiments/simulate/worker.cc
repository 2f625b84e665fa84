#include "experiments/simulate/worker.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps_server/wire/frame.h"

namespace lockstep {
namespace {

constexpr uint64_t kStepTimeStream = 21;
constexpr int64_t kBuckets = 2;  // a gradient goes in two pushes, its end first, as backward has it

}  // namespace

SimWorker::SimWorker(const SimContext& self, SimWorkerOptions options, const SimModel& model,
                     SimWorkerEvents events)
    : SimMember(self, options.member),
      worker_(std::move(options)),
      model_(model),
      events_(std::move(events)),
      random_(worker_.seed, kStepTimeStream + static_cast<uint64_t>(self.process())) {}

void SimWorker::Enter(Phase phase) {
  phase_ = phase;
  since_ns_ = self_.NowNs();
}

void SimWorker::OnGroup() {
  const Start& start = group_.start();
  const MemberInfo* const own = InfoOf(WORKER, index());
  if (own == nullptr) return Fail(absl::InternalError("a Start without this worker"));
  ClientCoreOptions options{.rank = index(),
                            .incarnation = own->incarnation(),
                            .epoch = start.epoch(),
                            .layout = worker_.layout,
                            .server_of_shard = {},
                            .limits = options_.limits};
  for (const ShardChain& chain : start.chain()) {
    options.server_of_shard.push_back(chain.server(0));
  }
  if (!start.restore()) options.versions = versions_;
  core_ = std::make_unique<ClientCore>(std::move(options), worker_.ranges);
  for (const int32_t server : core_->servers()) {
    const MemberInfo* const info = InfoOf(SERVER, server);
    if (info == nullptr) return Fail(absl::InternalError("a chain's head is not in its group"));
    const int64_t stream = self_.Open(ProcessOf(*info), /*data=*/true);
    stream_of_[server] = stream;
    server_of_[stream] = server;
  }
  Enter(Phase::kGreeting);
  core_->Hello();
  Pump();
}

void SimWorker::Pump() {
  while (core_ != nullptr) {
    for (const auto& [server, stream] : stream_of_) {
      while (self_.HasRoom(stream)) {
        const std::optional<ClientFrame> frame = core_->Next(server);
        if (!frame.has_value()) break;
        std::string bytes =
            EncodeHeader(frame->header, static_cast<int64_t>(frame->payload.size()));
        bytes.append(reinterpret_cast<const char*>(frame->payload.data()), frame->payload.size());
        const bool twice = frame->header.kind() == PUSH && duplicates_ > 0;
        if (twice) {
          --duplicates_;
          self_.Send(stream, bytes);
        }
        self_.Send(stream, std::move(bytes));
      }
    }
    if (!core_->done()) return;
    const Phase before = phase_;
    const size_t bucket = bucket_;
    const absl::Status status = Next();
    if (!status.ok()) return GiveUp(status);
    if (phase_ == before && bucket_ == bucket) return;
  }
}

absl::Status SimWorker::Next() {
  switch (phase_) {
    case Phase::kGreeting:
      return TakeUp();
    case Phase::kInit:
      Enter(Phase::kTakingUp);
      core_->Pull(0, parameters_);
      return absl::OkStatus();
    case Phase::kTakingUp:
      step_ = resume_;
      has_state_ = true;
      BeReady();
      return absl::OkStatus();
    case Phase::kPushing:
      return PushNext();
    case Phase::kPulling:
      return FinishStep();
    default:
      return absl::OkStatus();
  }
}

absl::Status SimWorker::TakeUp() {
  if (parameters_.empty()) parameters_ = model_.StartValues();
  if (!core_->initialized() && index() == 0) {
    parameters_ = model_.StartValues();
    resume_ = 0;
    Enter(Phase::kInit);
    core_->Init(parameters_);
    return absl::OkStatus();
  }
  const std::optional<int64_t> own = has_state_ ? std::optional(step_) : std::nullopt;
  ASSIGN_OR_RETURN(const ResumePoint resume, core_->Resume(own, group_.start().restore()));
  resume_ = resume.step;
  if (!resume.pull) {
    BeReady();
    return absl::OkStatus();
  }
  Enter(Phase::kTakingUp);
  has_state_ = false;
  core_->Pull(resume_, parameters_);
  return absl::OkStatus();
}

void SimWorker::BeReady() {
  Enter(Phase::kReady);
  SayConnected();
  if (group_.go()) NextStep();
}

void SimWorker::OnGo() {
  if (phase_ == Phase::kReady) NextStep();
}

void SimWorker::NextStep() {
  if (step_ >= worker_.steps) {
    Enter(Phase::kDone);
    MemberEvent event;
    event.mutable_done()->set_step(step_);
    return Say(event);
  }
  Enter(Phase::kComputing);
  events_.begins();
  double time_ns = worker_.step_times.mean_ns;
  if (worker_.step_times.exponential) {
    time_ns *= -std::log(1.0 - static_cast<double>(random_.Uniform()));
  }
  self_.After(time_ns * self_.Slowness(), group_.epoch());
}

void SimWorker::OnOwnTimer(int64_t timer) {
  if (phase_ != Phase::kComputing || timer != group_.epoch()) return;
  gradient_ = model_.Gradient(index(), step_ + 1, parameters_);
  events_.gradient(index(), step_ + 1, gradient_);
  bucket_ = 0;
  Enter(Phase::kPushing);
  Pump();
}

absl::Status SimWorker::PushNext() {
  const auto count = static_cast<int64_t>(gradient_.size());
  if (bucket_ == kBuckets) {
    Enter(Phase::kPulling);
    core_->Pull(step_ + 1, parameters_);
    for (const auto& [stream, bytes] : std::exchange(early_, {})) Take(stream, bytes);
    return absl::OkStatus();
  }
  ++bucket_;
  const int64_t end = count - count / kBuckets * static_cast<int64_t>(bucket_ - 1);
  const int64_t begin = bucket_ == kBuckets ? 0 : end - count / kBuckets;
  return core_->Push(
      step_ + 1, begin,
      std::span(gradient_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

absl::Status SimWorker::FinishStep() {
  rejected_ = core_->rejected();
  ++step_;
  events_.finished(index(), step_, parameters_);
  NextStep();
  return absl::OkStatus();
}

void SimWorker::OnFrame(int64_t stream, const std::string& bytes) {
  Take(stream, bytes);
  Pump();
}

void SimWorker::Take(int64_t stream, const std::string& bytes) {
  const auto server = server_of_.find(stream);
  if (server == server_of_.end()) return;
  const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes))};
  const absl::StatusOr<Frame> frame = DecodeFrame(slices);
  if (!frame.ok()) return GiveUp(frame.status());
  if (core_->TakesLater(frame->header)) {
    early_.emplace_back(stream, bytes);
    return;
  }
  const absl::Status status = core_->OnFrame(server->second, *frame);
  if (!status.ok()) {
    events_.failed(index(), status);
    return GiveUp(status);
  }
  const PsFrame& header = frame->header;
  const int64_t end =
      header.offset() + frame->payload_bytes / SizeOf(worker_.layout.rules.wire_dtype);
  if (header.kind() == PARAMETERS && end == header.total()) {
    const bool answers = phase_ == Phase::kPulling;
    events_.told(index(), ProcessOf(*InfoOf(SERVER, server->second)), header, answers);
  }
}

void SimWorker::OnRoom(int64_t stream) {
  if (server_of_.contains(stream)) Pump();
}

void SimWorker::OnStreamClosed(int64_t stream) {
  const auto server = server_of_.find(stream);
  if (server == server_of_.end()) return;
  const std::string name = absl::StrCat("server ", server->second);
  // A worker that waits for Go, or is done, does not look at its streams.
  if (phase_ == Phase::kReady || phase_ == Phase::kDone) return;
  GiveUp(Blame(
      absl::UnavailableError(absl::StrCat("worker ", index(), ": the stream to ", name, " broke")),
      {name}));
}

void SimWorker::LeaveGroup(const absl::Status& /*cause*/) {
  // What a pull that was cut short left behind is no step's parameters.
  if (core_ != nullptr) {
    if (core_->torn()) has_state_ = false;
    versions_ = core_->versions();
  }
  for (const auto& [stream, server] : server_of_) self_.Close(stream);
  server_of_.clear();
  stream_of_.clear();
  early_.clear();
  core_.reset();
  Enter(Phase::kLeft);
}

absl::Status SimWorker::CheckDeadlines() {
  const Limits& limits = options_.limits;
  int64_t bound_ms = kDayMs;
  switch (phase_) {
    case Phase::kGreeting:
      bound_ms = limits.connect_timeout_ms;
      break;
    case Phase::kInit:
    case Phase::kTakingUp:
    case Phase::kPushing:
    case Phase::kPulling:
      bound_ms = limits.sync_timeout_ms + limits.answer_grace_ms;
      break;
    case Phase::kReady:
      bound_ms = limits.connect_timeout_ms + limits.sync_timeout_ms + limits.lease_ms;
      break;
    case Phase::kLeft:
      bound_ms = limits.rebuild_timeout_ms + limits.lease_ms;
      break;
    default:
      break;
  }
  const int64_t waited_ms = (self_.NowNs() - since_ns_) / kNsPerMs;
  if (waited_ms < bound_ms) return absl::OkStatus();
  if (phase_ == Phase::kLeft) {
    Fail(absl::DeadlineExceededError("no new group came"));
    return absl::OkStatus();
  }
  std::vector<std::string> blamed;
  if (core_ != nullptr) {
    for (const int32_t server : core_->AwaitedServers()) {
      blamed.push_back(absl::StrCat("server ", server));
    }
  }
  return Blame(absl::DeadlineExceededError(
                   absl::StrCat("worker ", index(), " waited ", waited_ms, " ms for ",
                                core_ == nullptr ? "its group" : core_->Awaited())),
               blamed);
}

}  // namespace lockstep
