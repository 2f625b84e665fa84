// local_optimizer.h: the optimizer on the worker's own copy of the parameters: its rule, its state
// and how many steps that state has seen. Threads: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/numeric/optimizer.h"

namespace lockstep {

class LocalOptimizer {
 public:
  LocalOptimizer(const OptimizerOptions& options, int64_t parameters)
      : options_(options),
        parameters_(parameters),
        state_(static_cast<size_t>(parameters * StateSlots(options.kind)), 0.0F) {}

  // REQUIRES: both spans hold `parameters` floats.
  void Apply(std::span<const float> gradient_sum, std::span<float> parameters) {
    CHECK_EQ(static_cast<int64_t>(gradient_sum.size()), parameters_);
    CHECK_EQ(static_cast<int64_t>(parameters.size()), parameters_);
    OptimizerStep(options_, ++step_, gradient_sum.data(), state_.data(), parameters_,
                  parameters.data(), parameters.data(), parameters_);
  }
  // All slots, one after the other.
  std::span<const float> state() const { return state_; }
  std::span<float> mutable_state() { return state_; }
  // `state` is that after `step` steps.
  void set_step(int64_t step) { step_ = step; }

 private:
  const OptimizerOptions options_;
  const int64_t parameters_;
  std::vector<float> state_;
  int64_t step_ = 0;
};

}  // namespace lockstep
