#include "worker/trainer.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/member/process.h"
#include "base/status.h"
#include "worker/bucket/bucket.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"
#include "worker/model/factory.h"
#include "worker/probe/probe.h"
#include "worker/sync/factory.h"

namespace lockstep {
namespace {

constexpr double kBytesPerMb = 1 << 20;  // bucket_cap_mb counts as PyTorch DDP does

// Adds up the time spent between Resume and Pause.
class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock) {}
  void Resume() { since_ns_ = clock_.NowNs(); }
  void Pause() { total_ns_ += clock_.NowNs() - since_ns_; }
  int64_t total_ns() const { return total_ns_; }

 private:
  const Clock& clock_;
  int64_t since_ns_ = 0;
  int64_t total_ns_ = 0;
};

class StepTrainer final : public Trainer {
 public:
  StepTrainer(const Experiment& experiment, Dataset dataset, Sampler sampler,
              std::unique_ptr<Model> model, std::unique_ptr<RecordWriter> records,
              const Limits& limits, const Clock& clock)
      : steps_(experiment.train().steps()),
        dataset_(std::move(dataset)),
        sampler_(std::move(sampler)),
        model_(std::move(model)),
        buckets_(MakeBuckets(model_->spans(),
                             static_cast<int64_t>(experiment.bucket_cap_mb(0) * kBytesPerMb))),
        records_(std::move(records)),
        probe_(experiment.probe().every(), steps_, limits, clock, records_.get()),
        clock_(clock) {}

  // Links up, start values spread, both recorded.
  absl::Status Begin(const Start& start, TrainerContext context) {
    Record record;
    *record.mutable_started() = context.started;
    record.mutable_started()->set_parameters(model_->parameter_count());
    record.mutable_started()->set_gradient_bytes(model_->parameter_count() *
                                                 static_cast<int64_t>(sizeof(float)));
    record.mutable_started()->set_buckets(static_cast<int>(buckets_.size()));
    records_->Write(record);
    model_->Init(start.run().seed());
    ASSIGN_OR_RETURN(synchronizer_,
                     MakeSynchronizer(start, {.rank = context.rank,
                                              .token = context.token,
                                              .listener = std::move(context.listener),
                                              .tensors = model_->spans(),
                                              .limits = context.limits,
                                              .clock = context.clock,
                                              .abort = context.abort}));
    RETURN_IF_ERROR(synchronizer_->Begin(model_->parameters()));
    Record set_up;
    *set_up.mutable_set_up()->mutable_traffic() = CountOf(TakeTraffic());
    records_->Write(set_up);
    probe_.Take(0, model_->parameters(), synchronizer_->optimizer_state());
    return records_->status();
  }

  absl::Status Train(Member* member) override {
    for (int64_t step = 1; step <= steps_; ++step) {
      RETURN_IF_ERROR(OneStep(step));
      step_ = step;
      member->FinishedStep(step);
      if (probe_.Due(step)) {
        probe_.Take(step, model_->parameters(), synchronizer_->optimizer_state());
      }
      RETURN_IF_ERROR(records_->status());
    }
    return absl::OkStatus();
  }

  int64_t step() const override { return step_; }

  absl::Status RecordEnd(const absl::Status& status) override {
    Record record;
    record.mutable_ended()->set_code(static_cast<int>(status.code()));
    record.mutable_ended()->set_message(absl::StrCat(status.message()));
    record.mutable_ended()->set_step(step_);
    if (synchronizer_ != nullptr) {
      *record.mutable_ended()->mutable_traffic() = CountOf(TakeTraffic());
    }
    records_->Write(record);
    return status.ok() ? records_->status() : status;
  }

 private:
  absl::Status OneStep(int64_t step) {
    const int64_t start_ns = clock_.NowNs();
    Stopwatch sync(clock_);
    Gather(dataset_, sampler_.Batch(step), &samples_);
    size_t next_bucket = 0;
    const auto ready = [&](int tensor) -> absl::Status {
      if (next_bucket == buckets_.size() || buckets_[next_bucket].first_tensor != tensor) {
        return absl::OkStatus();
      }
      sync.Resume();
      absl::Status status =
          synchronizer_->GradientReady(step, buckets_[next_bucket++], model_->gradients());
      sync.Pause();
      return status;
    };
    ASSIGN_OR_RETURN(const double loss,
                     model_->ForwardBackward({samples_.inputs, samples_.labels}, ready));
    sync.Resume();
    RETURN_IF_ERROR(synchronizer_->Finish(step, model_->gradients(), model_->parameters()));
    sync.Pause();
    Record record;
    StepDone* done = record.mutable_step();
    done->set_step(step);
    done->set_start_ns(start_ns);
    done->set_sync_ns(sync.total_ns());
    done->set_compute_ns(clock_.NowNs() - start_ns - sync.total_ns());
    done->set_loss(loss);
    done->set_samples(static_cast<int>(samples_.labels.size()));
    *done->mutable_traffic() = CountOf(TakeTraffic());
    records_->Write(record);
    return absl::OkStatus();
  }

  // Since the previous call.
  Traffic TakeTraffic() {
    const Traffic now = synchronizer_->traffic();
    return now - std::exchange(counted_, now);
  }

  const int64_t steps_;
  const Dataset dataset_;
  Sampler sampler_;
  std::unique_ptr<Model> model_;
  const std::vector<Bucket> buckets_;
  std::unique_ptr<RecordWriter> records_;
  Probe probe_;
  const Clock& clock_;
  std::unique_ptr<Synchronizer> synchronizer_;
  Samples samples_;
  Traffic counted_;
  int64_t step_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const Start& start,
                                                         TrainerContext context) {
  const RunConfig& run = start.run();
  const Experiment& experiment = run.experiment();
  ASSIGN_OR_RETURN(Dataset dataset, LoadDataset(experiment.data()));
  ASSIGN_OR_RETURN(Sampler sampler,
                   Sampler::Make({.seed = run.seed(),
                                  .samples = dataset.samples,
                                  .global_batch = experiment.train().global_batch(0),
                                  .rank = context.rank,
                                  .world_size = run.world_size()}));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      MakeModel(experiment.model(), {.features = dataset.features, .classes = dataset.classes}));
  ASSIGN_OR_RETURN(
      std::unique_ptr<RecordWriter> records,
      RecordWriter::Create(RecordPath(run.record_dir(), "worker", context.rank), *context.clock));
  auto trainer = std::make_unique<StepTrainer>(experiment, std::move(dataset), std::move(sampler),
                                               std::move(model), std::move(records), context.limits,
                                               *context.clock);
  RETURN_IF_ERROR(trainer->Begin(start, std::move(context)));
  return trainer;
}

}  // namespace lockstep
