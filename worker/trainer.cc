#include "worker/trainer.h"

#include <utility>

#include "base/status.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"
#include "worker/model/factory.h"

namespace lockstep {
namespace {

class BatchGradients final : public GradientSource {
 public:
  BatchGradients(Dataset dataset, Sampler sampler, std::unique_ptr<Model> model)
      : dataset_(std::move(dataset)), sampler_(std::move(sampler)), model_(std::move(model)) {}

  Model& model() override { return *model_; }

  absl::StatusOr<Result> Compute(int64_t step, const TensorReady& ready) override {
    Gather(dataset_, sampler_.Batch(step), &samples_);
    ASSIGN_OR_RETURN(const double loss,
                     model_->ForwardBackward({samples_.inputs, samples_.labels}, ready));
    return Result{loss, static_cast<int>(samples_.labels.size())};
  }

 private:
  const Dataset dataset_;
  Sampler sampler_;
  const std::unique_ptr<Model> model_;
  Samples samples_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StepLoop>> MakeTrainer(const Start& start, LoopContext context) {
  const RunConfig& run = start.run();
  const Experiment& experiment = run.experiment();
  ASSIGN_OR_RETURN(Dataset dataset, LoadDataset(experiment.data()));
  ASSIGN_OR_RETURN(Sampler sampler,
                   Sampler::Make({.seed = run.seed(),
                                  .samples = dataset.samples,
                                  .global_batch = experiment.train().global_batch(0),
                                  .rank = context.index,
                                  .world_size = run.world_size()}));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      MakeModel(experiment.model(), {.features = dataset.features, .classes = dataset.classes}));
  context.started.set_data_rule(sampler.Rule());
  return StepLoop::Create(
      start, std::move(context),
      std::make_unique<BatchGradients>(std::move(dataset), std::move(sampler), std::move(model)));
}

}  // namespace lockstep
