// local_optimizer.h: the optimizer on the worker's own copy of the parameters: its rule, its state
// and how many steps that state has seen. HostOptimizer: with the host's arithmetic; others run
// where the model computes, and leave `parameters` to Model::FetchParameters.
// Errors: none on the host; elsewhere those of Memory, which keeps them. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/numeric/optimizer.h"

namespace lockstep {

class LocalOptimizer {
 public:
  virtual ~LocalOptimizer() = default;

  // The spans are the arenas as the host sees them; the sum may stand elsewhere in its memory.
  virtual absl::Status Apply(std::span<const float> gradient_sum, std::span<float> parameters) = 0;
  // All slots, one after the other; valid until the next call.
  virtual std::span<const float> state() = 0;
  // `state` is that after `step` steps.
  virtual void SetState(std::span<const float> state, int64_t step) = 0;
};

// For that many parameters.
using OptimizerFactory =
    std::function<std::unique_ptr<LocalOptimizer>(const OptimizerOptions&, int64_t parameters)>;

class HostOptimizer final : public LocalOptimizer {
 public:
  HostOptimizer(const OptimizerOptions& options, int64_t parameters)
      : options_(options),
        parameters_(parameters),
        state_(static_cast<size_t>(parameters * StateSlots(options.kind)), 0.0F) {}

  absl::Status Apply(std::span<const float> gradient_sum, std::span<float> parameters) override {
    CHECK_EQ(static_cast<int64_t>(gradient_sum.size()), parameters_);
    CHECK_EQ(static_cast<int64_t>(parameters.size()), parameters_);
    OptimizerStep(options_, ++step_, gradient_sum.data(), state_.data(), parameters_,
                  parameters.data(), parameters.data(), parameters_);
    return absl::OkStatus();
  }
  std::span<const float> state() override { return state_; }
  void SetState(std::span<const float> state, int64_t step) override {
    CHECK_EQ(state.size(), state_.size());
    std::copy(state.begin(), state.end(), state_.begin());
    step_ = step;
  }

 private:
  const OptimizerOptions options_;
  const int64_t parameters_;
  std::vector<float> state_;
  int64_t step_ = 0;
};

inline std::unique_ptr<LocalOptimizer> MakeHostOptimizer(const OptimizerOptions& options,
                                                         int64_t parameters) {
  return std::make_unique<HostOptimizer>(options, parameters);
}

}  // namespace lockstep
