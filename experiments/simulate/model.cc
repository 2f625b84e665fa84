#include "experiments/simulate/model.h"

#include "base/numeric/random.h"

namespace lockstep {
namespace {

constexpr float kNoise = 0.05F;
constexpr uint64_t kStartStream = 11;
constexpr uint64_t kModelStream = 12;
constexpr uint64_t kNoiseStream = uint64_t{1} << 32;  // + step, and a worker's above that

}  // namespace

SimModel::SimModel(int64_t parameters, uint64_t seed) : seed_(seed) {
  Random random(seed, kModelStream);
  for (int64_t i = 0; i < parameters; ++i) {
    curvature_.push_back(0.5F + random.Uniform());
    target_.push_back(2 * random.Uniform() - 1);
  }
}

std::vector<float> SimModel::StartValues() const {
  Random random(seed_, kStartStream);
  std::vector<float> values(target_.size());
  for (float& value : values) value = 2 * random.Uniform() - 1;
  return values;
}

std::vector<float> SimModel::Gradient(int32_t worker, int64_t step,
                                      std::span<const float> at) const {
  const uint64_t stream =
      kNoiseStream + (static_cast<uint64_t>(worker) << 40) + static_cast<uint64_t>(step);
  Random random(seed_, stream);
  std::vector<float> gradient(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    gradient[i] = curvature_[i] * (at[i] - target_[i]) + kNoise * (2 * random.Uniform() - 1);
  }
  return gradient;
}

double SimModel::Loss(std::span<const float> at) const {
  double loss = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto away = static_cast<double>(at[i] - target_[i]);
    loss += static_cast<double>(curvature_[i]) * away * away / 2;
  }
  return loss;
}

}  // namespace lockstep
