// local.h: no synchronisation at all: each worker follows its own gradients. The control of every
// comparison: it shows what drifts apart when nobody keeps step. Paper: none; the null hypothesis.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/sync/sgd_state.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

class LocalSynchronizer final : public Synchronizer {
 public:
  // `options.divisor` must be 1: the gradient is this worker's own mean.
  LocalSynchronizer(const SgdOptions& options, int64_t parameters) : sgd_(options, parameters) {}

  absl::Status Begin(std::span<float> /*parameters*/) override { return absl::OkStatus(); }
  absl::Status GradientReady(int64_t /*step*/, const Bucket& /*bucket*/,
                             std::span<float> /*gradients*/) override {
    return absl::OkStatus();
  }
  absl::Status Finish(int64_t /*step*/, std::span<float> gradients,
                      std::span<float> parameters) override {
    sgd_.Apply(gradients, parameters);
    return absl::OkStatus();
  }
  SetUpFacts set_up() const override { return {}; }
  void LogMessages(MessageLog* /*log*/) override {}
  std::span<const float> optimizer_state() const override { return sgd_.velocity(); }
  Traffic traffic() const override { return {}; }

 private:
  SgdState sgd_;
};

}  // namespace lockstep
