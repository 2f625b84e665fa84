// sgd_state.h: SGD with momentum on the worker's own copy: the rule and its velocity, one float a
// parameter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/numeric/sgd.h"

namespace lockstep {

class SgdState {
 public:
  SgdState(const SgdOptions& options, int64_t parameters)
      : options_(options), velocity_(static_cast<size_t>(parameters), 0.0F) {}

  // REQUIRES: both spans hold `parameters` floats.
  void Apply(std::span<const float> gradient_sum, std::span<float> parameters) {
    CHECK_EQ(gradient_sum.size(), velocity_.size());
    CHECK_EQ(parameters.size(), velocity_.size());
    SgdStep(options_, gradient_sum.data(), velocity_.data(), parameters.data(),
            static_cast<int64_t>(velocity_.size()));
  }
  std::span<const float> velocity() const { return velocity_; }
  std::span<float> mutable_velocity() { return velocity_; }

 private:
  const SgdOptions options_;
  std::vector<float> velocity_;
};

}  // namespace lockstep
