#include "worker/summing_rank.h"

#include <utility>

#include "base/status.h"
#include "worker/data/dataset.h"
#include "worker/model/factory.h"

namespace lockstep {
namespace {

// Every bucket is ready at once: this rank has nothing to compute.
class NoGradients final : public GradientSource {
 public:
  explicit NoGradients(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  Model& model() override { return *model_; }

  absl::StatusOr<Result> Compute(int64_t /*step*/, const TensorReady& ready) override {
    for (size_t left = model_->tensors().size(); left > 0; --left) {
      RETURN_IF_ERROR(ready(static_cast<int>(left - 1)));
    }
    return Result{};
  }

  absl::Status Share(int /*rank*/, int /*world_size*/) override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<Model> model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StepLoop>> MakeSummingRank(const Start& start, LoopContext context) {
  const Experiment& experiment = start.run().experiment();
  ASSIGN_OR_RETURN(const Dataset dataset, LoadDataset(experiment.data()));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Model> model,
      MakeModel(experiment.model(), {.features = dataset.features, .classes = dataset.classes},
                MakeDnnlMath()));
  context.trains = false;
  return StepLoop::Create(start, std::move(context),
                          std::make_unique<NoGradients>(std::move(model)));
}

}  // namespace lockstep
