#include "experiments/analyse/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

}  // namespace

std::vector<double> Smoothed(const std::vector<double>& values) {
  std::vector<double> smooth(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t first = i + 1 - std::min(i + 1, kSmoothSteps);
    double sum = 0;
    for (size_t k = first; k <= i; ++k) sum += values[k];
    smooth[i] = sum / static_cast<double>(i + 1 - first);
  }
  return smooth;
}

LossCurve CurveOf(const std::vector<const RunRecord*>& runs, size_t steps) {
  LossCurve curve;
  double trained = 0;
  for (size_t i = 0; i < steps; ++i) {
    double count = 0;
    double loss = 0;
    double time_s = 0;
    double samples = 0;
    for (const RunRecord* run : runs) {
      const int64_t start_ns = FirstStartNs(*run);
      for (const MemberRecord& worker : run->workers) {
        const StepDone& step = worker.steps[i];
        loss += step.loss();
        time_s += static_cast<double>(EndNs(step) - start_ns) / kNanosecondsPerSecond;
        samples += step.samples();
        ++count;
      }
    }
    trained += samples / static_cast<double>(runs.size());
    curve.value.push_back(loss / count);
    curve.time_s.push_back(time_s / count);
    curve.samples.push_back(trained);
  }
  return curve;
}

void AggregateLoss(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  size_t steps = CommonSteps(*runs[0]);
  for (const RunRecord* run : runs) steps = std::min(steps, CommonSteps(*run));
  const LossCurve curve = CurveOf(runs, steps);
  LossResult* loss = result->mutable_loss();
  size_t first_bad = 0;  // 1-based
  for (size_t i = 0; i < steps; ++i) {
    if (!std::isfinite(curve.value[i])) {
      if (first_bad == 0) first_bad = i + 1;
      continue;  // JSON has no NaN
    }
    loss->add_step(static_cast<double>(i + 1));
    loss->add_value(curve.value[i]);
    loss->add_time_s(curve.time_s[i]);
    loss->add_samples(curve.samples[i]);
  }
  if (steps == 0) {
    loss->set_final_reason("no step was finished by every worker");
    return;
  }
  const double final = Smoothed(curve.value).back();
  if (std::isfinite(final)) {
    loss->set_final(final);
  } else {
    loss->set_final_reason(absl::StrCat("the loss is not finite since step ", first_bad));
  }
}

}  // namespace lockstep
