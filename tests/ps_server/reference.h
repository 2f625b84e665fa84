// reference.h: what a synchronous parameter server must compute, as straight-line code over the
// flat space: gradients that make the order of additions visible, and SGD with momentum. For tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/numeric/sgd.h"

namespace lockstep {

// Noise over four decades, so that another order of additions gives other bits.
inline float Noise(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9E3779B97F4A7C15U + b * 0xBF58476D1CE4E5B9U + c * 0x94D049BB133111EBU + 1;
  x ^= x >> 31U;
  x *= 0xD6E8FEB86659FD93U;
  x ^= x >> 32U;
  const auto fraction = static_cast<float>(x & 0xFFFFFFU) / 16'777'216.0F - 0.5F;
  return fraction * std::pow(10.0F, static_cast<float>((x >> 24U) % 4));
}

inline std::vector<float> NoiseVector(uint64_t a, uint64_t b, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = Noise(a, b, i);
  return values;
}

inline std::vector<float> StartValues(uint64_t seed, int64_t count) {
  return NoiseVector(seed, 1'000'003, count);
}
// Gradients of `worker` in `step`, whole flat space.
inline std::vector<float> Gradients(uint64_t seed, int worker, int64_t step, int64_t count) {
  return NoiseVector(seed + 77, static_cast<uint64_t>(step) * 1'009 + static_cast<uint64_t>(worker),
                     count);
}

// [version]: parameters after that many steps.
inline std::vector<std::vector<float>> ReferenceRun(uint64_t seed, int workers, int64_t steps,
                                                    int64_t count, const SgdOptions& sgd) {
  std::vector<std::vector<float>> versions = {StartValues(seed, count)};
  std::vector<float> velocity(static_cast<size_t>(count), 0.0F);
  for (int64_t step = 1; step <= steps; ++step) {
    std::vector<float> sum = Gradients(seed, 0, step, count);
    for (int r = 1; r < workers; ++r) {
      const std::vector<float> gradient = Gradients(seed, r, step, count);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + gradient[i];
    }
    std::vector<float> parameters = versions.back();
    for (size_t i = 0; i < sum.size(); ++i) {
      const float mean = sum[i] / sgd.divisor;
      const float kept = sgd.momentum * velocity[i];
      velocity[i] = kept + mean;
      const float change = sgd.learning_rate * velocity[i];
      parameters[i] = parameters[i] - change;
    }
    versions.push_back(std::move(parameters));
  }
  return versions;
}

}  // namespace lockstep
