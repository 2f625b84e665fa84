// model.h: what simulated workers train: least squares in as many dimensions as there are
// parameters, with noisy gradients, so that staleness, divergence and loss in virtual time are
// those of real training. The loss is sum of a_i (w_i - target_i)^2 / 2 with curvatures a_i between
// 0.5 and 1.5; a gradient adds noise that depends on worker and step alone, so that a step that is
// made again has the same bits if its parameters have. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

class SimModel {
 public:
  SimModel(int64_t parameters, uint64_t seed);

  std::vector<float> StartValues() const;
  std::vector<float> Gradient(int32_t worker, int64_t step, std::span<const float> at) const;
  double Loss(std::span<const float> at) const;

 private:
  uint64_t seed_;
  std::vector<float> curvature_;
  std::vector<float> target_;
};

}  // namespace lockstep
