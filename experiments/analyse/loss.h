// loss.h: the training loss of one variant: by step, by time, by samples.
// Values are means over workers and runs of a step that all of them finished; time counts from the
// run's first step's start to the step's end, mean over workers and runs; samples are those of all
// workers up to the step. A step without a finite loss is left out of the lists. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "experiments/analyse/run_record.h"

namespace lockstep {

// One batch's loss is too noisy to compare: every comparison is of a mean over so many steps.
inline constexpr size_t kSmoothSteps = 5;

// [i]: mean of the last kSmoothSteps values up to i, of fewer at the beginning.
std::vector<double> Smoothed(const std::vector<double>& values);

// By step, from 0. REQUIRES: at least one run; steps <= CommonSteps of each.
struct LossCurve {
  std::vector<double> value;  // may hold what is not finite
  std::vector<double> time_s;
  std::vector<double> samples;
};
LossCurve CurveOf(const std::vector<const RunRecord*>& runs, size_t steps);

// Fills in loss, but for what needs other variants (learning.h). REQUIRES: at least one run.
void AggregateLoss(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
