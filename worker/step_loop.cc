#include "worker/step_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
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

StepExchangeOptions ExchangeOptions(const Experiment& experiment, const Limits& limits,
                                    size_t buckets) {
  return {.overlap = experiment.overlap(),
          .buckets = static_cast<int>(buckets),
          .call_timeout_ms = kCollectivesPerBucket * limits.sync_timeout_ms +
                             limits.answer_grace_ms + kSchedulingGraceMs};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepLoop>> StepLoop::Create(const Start& start, LoopContext context,
                                                           std::unique_ptr<GradientSource> source) {
  ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> records,
                   RecordWriter::Create(
                       RecordPath(start.run().record_dir(), context.started.role(), context.index),
                       *context.clock));
  std::unique_ptr<StepLoop> loop(
      new StepLoop(start, context, std::move(source), std::move(records)));
  RETURN_IF_ERROR(loop->Begin(start, std::move(context)));
  return loop;
}

StepLoop::StepLoop(const Start& start, const LoopContext& context,
                   std::unique_ptr<GradientSource> source, std::unique_ptr<RecordWriter> records)
    : steps_(start.run().experiment().train().steps()),
      index_(context.index),
      trains_(context.trains),
      clock_(*context.clock),
      source_(std::move(source)),
      buckets_(BucketsOf(start.run().experiment(), source_->model())),
      nan_steps_(NanStepsOf(start.run().experiment(), index_)),
      records_(std::move(records)),
      probe_(start.run().experiment().probe().every(), steps_, context.limits, clock_,
             records_.get()),
      traced_(TracedStepsOf(start.run())),
      messages_(kTracedMessagesMax) {}

// Links up, start values spread, both recorded.
absl::Status StepLoop::Begin(const Start& start, LoopContext context) {
  const Experiment& experiment = start.run().experiment();
  Model& model = source_->model();
  Record record;
  *record.mutable_started() = context.started;
  record.mutable_started()->set_parameters(model.parameter_count());
  record.mutable_started()->set_gradient_bytes(model.parameter_count() *
                                               SizeOf(DtypeFrom(experiment.wire_dtype(0))));
  record.mutable_started()->set_buckets(static_cast<int>(buckets_.size()));
  records_->Write(record);
  // Without the broadcast each worker is to start from values of its own.
  const int own = experiment.broadcast_start() ? 0 : index_;
  model.Init(start.run().seed() + static_cast<uint64_t>(own));
  const Limits limits = context.limits;
  const Abort& abort = *context.abort;
  ASSIGN_OR_RETURN(synchronizer_, MakeSynchronizer(start, {.index = index_,
                                                           .trains = trains_,
                                                           .token = context.token,
                                                           .listener = std::move(context.listener),
                                                           .tensors = model.tensors(),
                                                           .buckets = buckets_,
                                                           .limits = limits,
                                                           .clock = &clock_,
                                                           .abort = &abort}));
  RETURN_IF_ERROR(synchronizer_->Begin(model.parameters()));
  exchange_ = std::make_unique<StepExchange>(
      synchronizer_.get(), ExchangeOptions(experiment, limits, buckets_.size()), clock_, abort);
  Record set_up;
  *set_up.mutable_set_up() = SetUpRecord(synchronizer_->set_up(), TakeTraffic(), clock_);
  records_->Write(set_up);
  TakeProbe(0);
  return records_->status();
}

absl::Status StepLoop::Run(Member* member) {
  for (int64_t step = 1; step <= steps_; ++step) {
    RETURN_IF_ERROR(OneStep(step));
    step_ = step;
    member->FinishedStep(step);
    TakeProbe(step);
    RETURN_IF_ERROR(records_->status());
  }
  return absl::OkStatus();
}

absl::Status StepLoop::OneStep(int64_t step) {
  const bool traced = traced_.from <= step && step < traced_.until;
  synchronizer_->LogMessages(traced ? &messages_ : nullptr);
  Model& model = source_->model();
  Timing timing;
  const int64_t start_ns = clock_.NowNs();
  ASSIGN_OR_RETURN(const GradientSource::Result result,
                   source_->Compute(step, [&](int tensor) -> absl::Status {
                     return OnTensor(step, tensor, &timing);
                   }));
  const int64_t computed_ns = clock_.NowNs();
  RETURN_IF_ERROR(exchange_->Finish(step, model.gradients(), model.parameters()));
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
  if (trains_) RETURN_IF_ERROR(CheckBucket(step, bucket));
  timing->backward_end_ns = clock_.NowNs();
  absl::Status status = exchange_->Ready(step, bucket, source_->model().gradients());
  timing->sync_ns += clock_.NowNs() - timing->backward_end_ns;
  return status;
}

// Also where a planned NaN is planted: nothing may stand between it and the check.
absl::Status StepLoop::CheckBucket(int64_t step, const Bucket& bucket) {
  Model& model = source_->model();
  const bool holds_first = bucket.offset == 0 && bucket.count > 0;
  if (holds_first && std::find(nan_steps_.begin(), nan_steps_.end(), step) != nan_steps_.end()) {
    model.gradients()[0] = std::numeric_limits<float>::quiet_NaN();
  }
  return CheckFinite({.step = step, .worker = index_}, model.tensors(), bucket, model.gradients());
}

void StepLoop::TakeProbe(int64_t step) {
  if (!trains_ || !probe_.Due(step)) return;
  probe_.Take(step, source_->model().parameters(), synchronizer_->optimizer_state());
}

absl::Status StepLoop::RecordEnd(const absl::Status& status) {
  Record record;
  record.mutable_ended()->set_code(static_cast<int>(status.code()));
  record.mutable_ended()->set_message(absl::StrCat(status.message()));
  record.mutable_ended()->set_step(step_);
  *record.mutable_ended()->mutable_traffic() = CountOf(TakeTraffic());
  records_->Write(record);
  return status.ok() ? records_->status() : status;
}

// Since the previous call. After an error a call may still be under way: it is not counted.
Traffic StepLoop::TakeTraffic() {
  const Traffic now = exchange_->traffic();
  return now - std::exchange(counted_, now);
}

}  // namespace lockstep
