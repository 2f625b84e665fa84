#include "worker/trainer.h"

#include <utility>

#include "base/member/group_state.h"
#include "base/status.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"
#include "worker/model/factory.h"
#include "worker/sync/factory.h"

namespace lockstep {
namespace {

class BatchGradients final : public GradientSource {
 public:
  BatchGradients(Dataset dataset, const SamplerOptions& order, Sampler sampler,
                 std::unique_ptr<Model> model, OptimizerFactory make_optimizer)
      : dataset_(std::move(dataset)),
        order_(order),
        sampler_(std::move(sampler)),
        model_(std::move(model)),
        make_optimizer_(std::move(make_optimizer)) {}

  Model& model() override { return *model_; }
  OptimizerFactory optimizer_factory() override { return make_optimizer_; }

  absl::StatusOr<Result> Compute(int64_t step, const TensorReady& ready) override {
    Gather(dataset_, sampler_.Batch(step), &samples_);
    ASSIGN_OR_RETURN(const double loss,
                     model_->ForwardBackward({samples_.inputs, samples_.labels}, [&](int tensor) {
                       Weigh(tensor);
                       return ready(tensor);
                     }));
    return Result{loss, static_cast<int>(samples_.labels.size())};
  }

  absl::Status Share(int rank, int world_size) override {
    order_.uneven_shares = order_.uneven_shares || world_size != order_.world_size;
    order_.rank = rank;
    order_.world_size = world_size;
    ASSIGN_OR_RETURN(sampler_, Sampler::Make(order_));
    weight_ = static_cast<float>(static_cast<double>(sampler_.rank_batch() * world_size) /
                                 static_cast<double>(order_.global_batch));
    return absl::OkStatus();
  }

 private:
  // The mean over workers of their means is that over samples only where all shares are equal.
  void Weigh(int tensor) {
    if (weight_ != 1.0F) model_->ScaleGradient(tensor, weight_);
  }

  const Dataset dataset_;
  SamplerOptions order_;
  Sampler sampler_;
  const std::unique_ptr<Model> model_;
  const OptimizerFactory make_optimizer_;
  Samples samples_;
  float weight_ = 1;  // of this worker's mean in the mean over workers
};

}  // namespace

absl::StatusOr<std::unique_ptr<StepLoop>> MakeTrainer(const Start& start, LoopContext context) {
  ASSIGN_OR_RETURN(Computer computer,
                   MakeComputer(start.run().experiment(), context.compute_place, context.index,
                                *context.clock, &context.started));
  return MakeTrainerOn(std::move(computer), start, std::move(context));
}

absl::StatusOr<std::unique_ptr<StepLoop>> MakeTrainerOn(Computer computer, const Start& start,
                                                        LoopContext context) {
  const RunConfig& run = start.run();
  const Experiment& experiment = run.experiment();
  ASSIGN_OR_RETURN(Dataset dataset, LoadDataset(experiment.data()));
  const SamplerOptions order = {
      .seed = run.seed(),
      .samples = dataset.samples,
      .global_batch = experiment.train().global_batch(0),
      .rank = RankOf(start, context.index),
      .world_size = WorkersOf(start),
      .uneven_shares = start.epoch() > kFirstEpoch || WorkersOf(start) != run.world_size()};
  ASSIGN_OR_RETURN(Sampler sampler, Sampler::Make(order));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      MakeModel(experiment.model(), {.features = dataset.features, .classes = dataset.classes},
                std::move(computer.math)));
  OptimizerFactory make_optimizer = computer.OptimizerFor(model.get());
  if (computer.gpu != nullptr) context.arrival_timeout_ms = context.limits.device_timeout_ms;
  context.started.set_data_rule(sampler.Rule());
  return StepLoop::Create(
      start, std::move(context),
      std::make_unique<BatchGradients>(std::move(dataset), order, std::move(sampler),
                                       std::move(model), std::move(make_optimizer)));
}

}  // namespace lockstep
