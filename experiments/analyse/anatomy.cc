#include "experiments/analyse/anatomy.h"

#include <algorithm>
#include <cstdint>

namespace lockstep {

StepParts PartsOf(const StepDone& step, int64_t last_end_ns) {
  StepParts parts;
  parts.compute = static_cast<double>(step.compute_ns());
  parts.sync = static_cast<double>(step.sync_ns());
  const auto late = static_cast<double>(last_end_ns - step.backward_end_ns());
  parts.wait = std::clamp(late, 0.0, parts.sync);
  int64_t beside_ns = 0;
  for (const ExchangeSpan& span : step.exchange()) {
    beside_ns += std::max<int64_t>(0, std::min(span.end_ns(), step.backward_end_ns()) -
                                          std::max(span.start_ns(), step.start_ns()));
  }
  // What the backward pass stood still for: until its end, everything that was not compute.
  const int64_t stood_ns =
      std::max<int64_t>(0, step.backward_end_ns() - step.start_ns() - step.compute_ns());
  parts.hidden = static_cast<double>(std::max<int64_t>(0, beside_ns - stood_ns));
  return parts;
}

LastGradient LastGradientOf(const RunRecord& run, size_t index, size_t rank) {
  LastGradient last = {rank, INT64_MIN};
  if (!IsSynchronous(ModeOf(run.config.variant()))) {
    last.end_ns = run.workers[rank].steps[index].backward_end_ns();
    return last;
  }
  for (size_t other = 0; other < run.workers.size(); ++other) {
    const std::vector<StepDone>& steps = run.workers[other].steps;
    if (index < steps.size() && steps[index].backward_end_ns() > last.end_ns) {
      last = {other, steps[index].backward_end_ns()};
    }
  }
  return last;
}

void AggregateAnatomy(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  StepParts sum;
  double count = 0;
  for (const RunRecord* run : runs) {
    const size_t end = CommonSteps(*run);
    for (auto i = static_cast<size_t>(WarmupSteps(run->steps())); i < end; ++i) {
      for (size_t rank = 0; rank < run->workers.size(); ++rank) {
        const StepParts parts =
            PartsOf(run->workers[rank].steps[i], LastGradientOf(*run, i, rank).end_ns);
        sum.compute += parts.compute;
        sum.sync += parts.sync;
        sum.wait += parts.wait;
        sum.hidden += parts.hidden;
        ++count;
      }
    }
  }
  if (count == 0) return;
  constexpr double kNanosecondsPerMicrosecond = 1e3;
  const double scale = 1 / (count * kNanosecondsPerMicrosecond);
  Anatomy* anatomy = result->mutable_anatomy_us();
  anatomy->set_compute(sum.compute * scale);
  anatomy->set_sync(sum.sync * scale);
  anatomy->set_exposed((sum.sync - sum.wait) * scale);
  anatomy->set_wait(sum.wait * scale);
  anatomy->set_hidden(sum.hidden * scale);
}

}  // namespace lockstep
