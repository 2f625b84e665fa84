// anatomy.h: where the time of a step goes, mean over workers and measured steps.
// compute: forward and backward. sync: what the step waited for, exposed + wait. wait: in the
// synchronous ways, from this worker's last gradient to the last worker's, but never longer than
// sync; elsewhere nobody waits for anybody, so 0. exposed: the rest of sync. hidden: exchange that
// ran while gradients were still being computed; not part of the step. A call that the backward
// pass stood still for is exposed, not hidden. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/analyse/run_record.h"

namespace lockstep {

// One worker's step, in ns.
struct StepParts {
  double compute = 0;
  double sync = 0;
  double wait = 0;
  double hidden = 0;
};
// `last_end_ns`: LastGradientOf this step.
StepParts PartsOf(const StepDone& step, int64_t last_end_ns);

// Who had its gradients last in step `index` (from 0), of those who got there. In the ways that
// wait for nobody it is `rank` itself.
struct LastGradient {
  size_t rank = 0;
  int64_t end_ns = 0;
};
LastGradient LastGradientOf(const RunRecord& run, size_t index, size_t rank);

// Leaves anatomy unset when no step was measured.
void AggregateAnatomy(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
