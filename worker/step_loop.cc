#include "worker/step_loop.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/member/group_state.h"
#include "base/member/process.h"
#include "base/status.h"
#include "worker/gradient_check.h"
#include "worker/sync/factory.h"

namespace lockstep {
namespace {

constexpr double kBytesPerMb = 1 << 20;        // bucket_cap_mb counts as PyTorch DDP does
constexpr size_t kTracedMessagesMax = 4'096;   // of a step
constexpr int64_t kCollectivesPerBucket = 2;   // EXACT: exponents, then values
constexpr int64_t kSchedulingGraceMs = 1'000;  // so that a call's own error comes first

std::vector<Bucket> BucketsOf(const Experiment& experiment, const Model& model) {
  return MakeBuckets(model.spans(),
                     static_cast<int64_t>(experiment.bucket_cap_mb(0) * kBytesPerMb));
}

StepExchangeOptions ExchangeOptions(const Experiment& experiment, const LoopContext& context,
                                    size_t buckets) {
  const Limits& limits = context.limits;
  return {.overlap = experiment.overlap(),
          .buckets = static_cast<int>(buckets),
          .call_timeout_ms = context.arrival_timeout_ms +
                             kCollectivesPerBucket * limits.sync_timeout_ms +
                             limits.answer_grace_ms + kSchedulingGraceMs};
}

LinkFault LinkFaultOf(Fault::Kind kind) {
  switch (kind) {
    case Fault::DROP:
      return LinkFault::kDrop;
    case Fault::DUPLICATE:
      return LinkFault::kDuplicate;
    case Fault::CORRUPT:
      return LinkFault::kCorrupt;
    default:
      CHECK(kind == Fault::DELAY) << Fault::Kind_Name(kind);
      return LinkFault::kDelay;
  }
}

// Messages on the first channel to a peer that is in the group; CORRUPT damages the header, which
// the receiver checks: a payload's bits belong to BITFLIP.
std::vector<FaultRule> FaultRules(const std::vector<PlannedFault>& faults, const Start& start) {
  std::vector<FaultRule> rules;
  for (const PlannedFault& planned : faults) {
    const Fault::Of& message = planned.fault.message();
    for (const MemberInfo& member : start.member()) {
      if (member.role() != WORKER || member.index() != message.to()) continue;
      rules.push_back({.fault = LinkFaultOf(planned.fault.kind()),
                       .peer = RankOf(start, message.to()),
                       .first = message.nth(),
                       .delay_ms = DurationMs(planned.fault.for_()).value_or(0),
                       .tag = planned.index});
    }
  }
  return rules;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepLoop>> StepLoop::Create(const Start& start, LoopContext context,
                                                           std::unique_ptr<GradientSource> source) {
  const std::string path =
      RecordPath(start.run().record_dir(), context.started.role(), context.index, start.epoch());
  ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> records,
                   RecordWriter::Create(path, *context.clock));
  std::unique_ptr<StepLoop> loop(
      new StepLoop(start, std::move(context), std::move(source), std::move(records)));
  loop->RecordStarted(start.run().experiment());
  if (start.epoch() > kFirstEpoch) {
    ASSIGN_OR_RETURN(
        const std::vector<Record> before,
        ReadMember(start.run().record_dir(), loop->context_.started.role(), loop->context_.index));
    loop->plan_.SkipStruck(before);
  }
  // Without the broadcast each worker is to start from values of its own.
  const int own = start.run().experiment().broadcast_start() ? 0 : loop->context_.index;
  loop->source_->model().Init(start.run().seed() + static_cast<uint64_t>(own));
  return loop;
}

StepLoop::StepLoop(const Start& start, LoopContext context, std::unique_ptr<GradientSource> source,
                   std::unique_ptr<RecordWriter> records)
    : steps_(start.run().experiment().train().steps()),
      context_(std::move(context)),
      clock_(*context_.clock),
      source_(std::move(source)),
      buckets_(BucketsOf(start.run().experiment(), source_->model())),
      records_(std::move(records)),
      plan_(start.run().experiment(), absl::StrCat(context_.started.role(), ":", context_.index),
            records_.get()),
      probe_(start.run().experiment().probe().every(), steps_, context_.limits, clock_,
             records_.get()),
      traced_(TracedStepsOf(start.run())),
      messages_(kTracedMessagesMax),
      step_(start.epoch() > kFirstEpoch ? kNoState : 0) {
  message_faults_.strikes = [this](int fault) { RecordMessageFault(fault); };
}

void StepLoop::RecordStarted(const Experiment& experiment) {
  const int64_t parameters = source_->model().parameter_count();
  Record record;
  *record.mutable_started() = context_.started;
  record.mutable_started()->set_parameters(parameters);
  record.mutable_started()->set_gradient_bytes(parameters *
                                               SizeOf(DtypeFrom(experiment.wire_dtype(0))));
  record.mutable_started()->set_buckets(static_cast<int>(buckets_.size()));
  records_->Write(record);
}

absl::Status StepLoop::Connect(const Start& start, Listener listener, const Abort& abort) {
  const Experiment& experiment = start.run().experiment();
  Model& model = source_->model();
  start_ = start;
  if (context_.trains) {
    RETURN_IF_ERROR(source_->Share(RankOf(start, context_.index), WorkersOf(start)));
  }
  if (start.restore()) {
    held_.versions.clear();
    held_.rewound = true;
  }
  ASSIGN_OR_RETURN(
      synchronizer_,
      MakeSynchronizer(start, {.index = context_.index,
                               .trains = context_.trains,
                               .token = context_.token,
                               .listener = std::move(listener),
                               .tensors = model.tensors(),
                               .buckets = buckets_,
                               .limits = context_.limits,
                               .clock = &clock_,
                               .abort = &abort,
                               .held = held_,
                               .faults = plan_.Has(StrikesMessage) ? &message_faults_ : nullptr,
                               .engine_place = context_.engine_place,
                               .make_optimizer = source_->optimizer_factory()}));
  RETURN_IF_ERROR(model.FetchParameters());
  ASSIGN_OR_RETURN(const int64_t after, synchronizer_->Begin(model.parameters()));
  model.StoreParameters();
  StepExchangeOptions options = ExchangeOptions(experiment, context_, buckets_.size());
  options.arrived = [this](int64_t step, const Bucket& bucket) { return Arrived(step, bucket); };
  if (plan_.Has(StrikesProcess)) {
    options.exchanged = [this](int64_t step, int bucket) { StrikeAfter(step, bucket); };
  }
  exchange_ = std::make_unique<StepExchange>(synchronizer_.get(), options, clock_, abort);
  RecordGroup(after);
  if (step_ != after || start.epoch() == kFirstEpoch) {  // a state not probed yet
    if (step_ == kNoState) TakeFirstState(after);
    step_ = after;
    RETURN_IF_ERROR(TakeProbe(step_));
  }
  return records_->status();
}

// Of a process that came when the run had begun: in the place of one that was lost, or as planned.
void StepLoop::TakeFirstState(int64_t after) {
  if (const auto joined = plan_.TakeNext(IsJoin)) plan_.Record(*joined, after + 1);
  plan_.BeginAfter(after);
}

// The group stands and the state after step `after` is there.
void StepLoop::RecordGroup(int64_t after) {
  Record record;
  if (start_.epoch() == kFirstEpoch) {
    *record.mutable_set_up() = SetUpRecord(synchronizer_->set_up(), TakeTraffic(), clock_);
  } else {
    Rebuilt* rebuilt = record.mutable_rebuilt();
    rebuilt->set_epoch(start_.epoch());
    rebuilt->set_step(after);
    rebuilt->set_world_size(WorkersOf(start_));
    rebuilt->set_rank(RankOf(start_, context_.index));
    // With parameter servers the state comes from them.
    if (!start_.run().variant().has_ps()) rebuilt->set_source(RankOf(start_, start_.source()));
    rebuilt->set_broken_ns(broken_ns_);
    rebuilt->set_cause(cause_);
    rebuilt->set_none_lost(start_.none_lost());
    // What the broken step had sent in vain is counted here too: no byte is left out.
    left_over_ += TakeTraffic();
    *rebuilt->mutable_traffic() = CountOf(std::exchange(left_over_, {}));
  }
  records_->Write(record);
}

void StepLoop::LeaveGroup(const absl::Status& cause) {
  broken_ns_ = clock_.NowNs();
  cause_ = absl::StrCat(cause.message());
  int64_t finished = kNoState;  // a replacement may have nobody's state yet
  if (exchange_ != nullptr) finished = exchange_->Stop();
  if (synchronizer_ != nullptr) {
    if (finished > step_) {  // the update was made, only the waiting for it was cut short
      step_ = finished;
      TakeProbe(step_).IgnoreError();  // what the model's memory has met it says again in Connect
    }
    held_ = synchronizer_->Held(step_);
    left_over_ += exchange_ != nullptr ? TakeTraffic() : synchronizer_->traffic();
  }
  exchange_.reset();
  synchronizer_.reset();
  counted_ = {};
  messages_.Take();
}

absl::Status StepLoop::Run(Member* member) {
  while (step_ < steps_) {
    const int64_t step = step_ + 1;
    if (LeavesBefore(step)) break;
    RETURN_IF_ERROR(OneStep(step));
    step_ = step;
    member->FinishedStep(step);
    RETURN_IF_ERROR(TakeProbe(step));
    RETURN_IF_ERROR(records_->status());
  }
  return absl::OkStatus();
}

bool StepLoop::LeavesBefore(int64_t step) {
  for (const PlannedFault& planned : plan_.Due(step, IsLeave)) {
    plan_.Record(planned, step);
    leaves_ = true;
  }
  return leaves_;
}

// Planned faults of this step, its messages' ones included.
void StepLoop::StrikeBefore(int64_t step) {
  if (plan_.empty()) return;
  for (const PlannedFault& planned : plan_.Due(step, StrikesProcess)) plan_.Inject(planned, step);
  nan_faults_ = plan_.Due(step, [](Fault::Kind kind) { return kind == Fault::NAN_GRADIENT; });
  due_messages_ = plan_.Due(step, StrikesMessage);
  message_faults_.rules = FaultRules(due_messages_, start_);
  message_faults_.armed = true;
}

// In the thread that exchanged the bucket.
void StepLoop::StrikeAfter(int64_t step, int bucket) {
  for (const PlannedFault& planned : plan_.Due(step, StrikesProcess, bucket)) {
    plan_.Inject(planned, step);
  }
}

// In the thread that exchanges, before the message is touched.
void StepLoop::RecordMessageFault(int fault) {
  for (const PlannedFault& planned : due_messages_) {
    if (planned.index == fault) plan_.Record(planned, step_ + 1);
  }
}

absl::Status StepLoop::OneStep(int64_t step) {
  const bool traced = traced_.from <= step && step < traced_.until;
  synchronizer_->LogMessages(traced ? &messages_ : nullptr);
  Model& model = source_->model();
  Timing timing;
  const int64_t start_ns = clock_.NowNs();
  StrikeBefore(step);
  ASSIGN_OR_RETURN(const GradientSource::Result result,
                   source_->Compute(step, [&](int tensor) -> absl::Status {
                     return OnTensor(step, tensor, &timing);
                   }));
  const int64_t computed_ns = buckets_.empty() ? clock_.NowNs() : timing.ready_ns;
  RETURN_IF_ERROR(exchange_->Finish(step, model.gradients(), model.parameters()));
  model.StoreParameters();
  const int64_t end_ns = clock_.NowNs();
  timing.sync_ns += end_ns - computed_ns;
  Record record;
  StepDone* done = record.mutable_step();
  done->set_step(step);
  done->set_start_ns(start_ns);
  done->set_backward_end_ns(buckets_.empty() ? computed_ns : timing.backward_end_ns);
  done->set_sync_ns(timing.sync_ns);
  done->set_compute_ns(end_ns - start_ns - timing.sync_ns);
  done->set_loss(result.loss);
  done->set_samples(result.samples);
  *done->mutable_traffic() = CountOf(TakeTraffic());
  AddSpans(exchange_->TakeSpans(), done);
  AddMessages(messages_.Take(), done);
  records_->Write(record);
  return absl::OkStatus();
}

// Backward has passed `tensor`: if it was the last of a bucket, the bucket's exchange may start.
absl::Status StepLoop::OnTensor(int64_t step, int tensor, Timing* timing) {
  if (timing->next_bucket == buckets_.size()) return absl::OkStatus();
  const Bucket& bucket = buckets_[timing->next_bucket];
  if (bucket.first_tensor != tensor) return absl::OkStatus();
  ++timing->next_bucket;
  source_->model().SendGradients(bucket);
  timing->backward_end_ns = clock_.NowNs();
  absl::Status status = exchange_->Ready(step, bucket, source_->model().gradients());
  timing->ready_ns = clock_.NowNs();
  timing->sync_ns += timing->ready_ns - timing->backward_end_ns;
  return status;
}

// In the thread that exchanges the bucket: its gradients are where the host sees them. Also where a
// planned NaN is planted: nothing may stand between it and the check.
absl::Status StepLoop::Arrived(int64_t step, const Bucket& bucket) {
  Model& model = source_->model();
  RETURN_IF_ERROR(Annotate(model.AwaitGradients(bucket),
                           absl::StrCat("step ", step, ", bucket ", bucket.index)));
  if (!context_.trains) return absl::OkStatus();
  const bool holds_first = bucket.offset == 0 && bucket.count > 0;
  if (holds_first) {
    for (const PlannedFault& planned : std::exchange(nan_faults_, {})) {
      plan_.Record(planned, step);
      model.gradients()[0] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return CheckFinite({.step = step, .worker = context_.index}, model.tensors(), bucket,
                     model.gradients());
}

absl::Status StepLoop::TakeProbe(int64_t step) {
  if (!context_.trains || !probe_.Due(step)) return absl::OkStatus();
  RETURN_IF_ERROR(source_->model().FetchParameters());
  probe_.Take(step, source_->model().parameters(), synchronizer_->optimizer_state());
  return absl::OkStatus();
}

absl::Status StepLoop::RecordEnd(const absl::Status& status) {
  Record record;
  record.mutable_ended()->set_code(static_cast<int>(status.code()));
  record.mutable_ended()->set_message(absl::StrCat(status.message()));
  record.mutable_ended()->set_step(step_);
  record.mutable_ended()->set_left(status.ok() && leaves_);
  *record.mutable_ended()->mutable_traffic() = CountOf(TakeTraffic());
  records_->Write(record);
  return status.ok() ? records_->status() : status;
}

// Since the previous call. After an error a call may still be under way: it is not counted.
Traffic StepLoop::TakeTraffic() {
  if (exchange_ == nullptr) return {};
  const Traffic now = exchange_->traffic();
  return now - std::exchange(counted_, now);
}

}  // namespace lockstep
