// local.h: no synchronisation at all: each worker follows its own gradients. The control of every
// comparison: it shows what drifts apart when nobody keeps step. Paper: none; the null hypothesis.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "worker/sync/local_optimizer.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

class LocalSynchronizer final : public Synchronizer {
 public:
  // `options.divisor` must be 1: the gradient is this worker's own mean.
  LocalSynchronizer(const OptimizerOptions& options, int64_t parameters,
                    const OptimizerFactory& make_optimizer = MakeHostOptimizer)
      : optimizer_(make_optimizer(options, parameters)) {}

  absl::StatusOr<int64_t> Begin(std::span<float> /*parameters*/) override { return 0; }
  absl::Status GradientReady(int64_t /*step*/, const Bucket& /*bucket*/,
                             std::span<float> /*gradients*/) override {
    return absl::OkStatus();
  }
  absl::Status Finish(int64_t /*step*/, std::span<float> gradients,
                      std::span<float> parameters) override {
    return optimizer_->Apply(gradients, parameters);
  }
  SetUpFacts set_up() const override { return {}; }
  void LogMessages(MessageLog* /*log*/) override {}
  HeldState Held(int64_t step) const override { return {.step = step}; }
  std::span<const float> optimizer_state() const override { return optimizer_->state(); }
  Traffic traffic() const override { return {}; }

 private:
  const std::unique_ptr<LocalOptimizer> optimizer_;
};

}  // namespace lockstep
