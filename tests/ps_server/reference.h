// reference.h: what a parameter server must compute, as straight-line code over the flat space:
// gradients that make the order of additions visible, sums, and SGD with momentum. For tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/numeric/exact.h"
#include "base/numeric/optimizer.h"
#include "ps_server/core/partition.h"

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

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A shard that is a tensor of its own.
inline ShardRange WholeTensor(int64_t count) {
  return {.offset = 0, .count = count, .parts = {{.tensor = 0, .offset = 0, .count = count}}};
}

// The sum of the workers' gradients of one step, whole flat space, not divided.
inline std::vector<float> RankOrderSum(const std::vector<std::vector<float>>& gradients) {
  std::vector<float> sum = gradients[0];
  for (size_t r = 1; r < gradients.size(); ++r) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + gradients[r][i];
  }
  return sum;
}

// EXACT over the whole flat space at once, divided.
inline std::vector<float> ExactSum(const std::vector<std::vector<float>>& gradients,
                                   const std::vector<int64_t>& tensor_counts, float divisor) {
  const auto workers = static_cast<int32_t>(gradients.size());
  const auto blocks = static_cast<size_t>(CountExactBlocks(tensor_counts));
  std::vector<int32_t> exponents(blocks, kZeroBlock);
  for (const std::vector<float>& gradient : gradients) {
    std::vector<int32_t> own(blocks);
    ExactExponents(Dtype::kF32, gradient.data(), tensor_counts, own);
    for (size_t b = 0; b < blocks; ++b) exponents[b] = std::max(exponents[b], own[b]);
  }
  std::vector<int64_t> quantised(gradients[0].size(), 0);
  for (const std::vector<float>& gradient : gradients) {
    ExactQuantise(Dtype::kF32, gradient.data(), tensor_counts, exponents,
                  {.world_size = workers, .add = true}, quantised);
  }
  std::vector<float> sum(gradients[0].size());
  ExactRestore(Dtype::kF32, quantised, tensor_counts, exponents,
               {.world_size = workers, .divisor = divisor}, sum.data());
  return sum;
}

// SGD with momentum, written out. `velocity` is the optimizer's state.
inline void ReferenceStep(const std::vector<float>& sum, const OptimizerOptions& sgd,
                          std::vector<float>* velocity, std::vector<float>* parameters) {
  for (size_t i = 0; i < sum.size(); ++i) {
    const float mean = sum[i] / sgd.divisor;
    const float kept = sgd.momentum * (*velocity)[i];
    (*velocity)[i] = kept + mean;
    const float change = sgd.learning_rate * (*velocity)[i];
    (*parameters)[i] = (*parameters)[i] - change;
  }
}

// [version]: parameters after that many steps. `exact_tensors`: the layout of EXACT sums; empty:
// sums in rank order.
inline std::vector<std::vector<float>> ReferenceRun(
    uint64_t seed, int workers, int64_t steps, int64_t count, const OptimizerOptions& sgd,
    const std::vector<int64_t>& exact_tensors = {}) {
  std::vector<std::vector<float>> versions = {StartValues(seed, count)};
  std::vector<float> velocity(static_cast<size_t>(count), 0.0F);
  for (int64_t step = 1; step <= steps; ++step) {
    std::vector<std::vector<float>> gradients;
    gradients.reserve(static_cast<size_t>(workers));
    for (int r = 0; r < workers; ++r) gradients.push_back(Gradients(seed, r, step, count));
    std::vector<float> parameters = versions.back();
    if (exact_tensors.empty()) {
      ReferenceStep(RankOrderSum(gradients), sgd, &velocity, &parameters);
    } else {
      OptimizerOptions divided = sgd;
      divided.divisor = 1;
      ReferenceStep(ExactSum(gradients, exact_tensors, sgd.divisor), divided, &velocity,
                    &parameters);
    }
    versions.push_back(std::move(parameters));
  }
  return versions;
}

// Parameters after the updates of these (worker, step), one after the other.
inline std::vector<float> ReferenceReplay(uint64_t seed,
                                          const std::vector<std::pair<int32_t, int64_t>>& updates,
                                          int64_t count, const OptimizerOptions& sgd) {
  std::vector<float> parameters = StartValues(seed, count);
  std::vector<float> velocity(static_cast<size_t>(count), 0.0F);
  for (const auto& [worker, step] : updates) {
    ReferenceStep(Gradients(seed, worker, step, count), sgd, &velocity, &parameters);
  }
  return parameters;
}

}  // namespace lockstep
