#include "experiments/analyse/aggregate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "experiments/analyse/bytes.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1e3;
constexpr double kNanosecondsPerSecond = 1e9;
constexpr size_t kFinalLossSteps = 5;  // one batch's loss is too noisy to compare

int64_t EndNs(const StepDone& step) { return step.start_ns() + step.compute_ns() + step.sync_ns(); }

// Steps that every worker finished.
size_t CommonSteps(const RunRecord& run) {
  size_t steps = run.workers.empty() ? 0 : run.workers[0].steps.size();
  for (const MemberRecord& worker : run.workers) steps = std::min(steps, worker.steps.size());
  return steps;
}

struct Throughput {
  double samples = 0;
  double elapsed_s = 0;
};

Throughput ThroughputOf(const RunRecord& run) {
  const auto first = static_cast<size_t>(WarmupSteps(run.steps()));
  const size_t end = CommonSteps(run);
  if (first >= end) return {};
  Throughput result;
  int64_t start_ns = INT64_MAX;
  int64_t end_ns = INT64_MIN;
  for (const MemberRecord& worker : run.workers) {
    start_ns = std::min(start_ns, worker.steps[first].start_ns());
    end_ns = std::max(end_ns, EndNs(worker.steps[end - 1]));
    for (size_t i = first; i < end; ++i) result.samples += worker.steps[i].samples();
  }
  result.elapsed_s = static_cast<double>(end_ns - start_ns) / kNanosecondsPerSecond;
  return result;
}

void AggregateThroughput(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  std::map<int, Throughput> of_block;
  for (const RunRecord* run : runs) {
    const Throughput one = ThroughputOf(*run);
    Throughput& block = of_block[run->config.block()];
    block.samples += one.samples;
    block.elapsed_s += one.elapsed_s;
  }
  std::vector<double> values;
  for (const auto& [block, throughput] : of_block) {
    if (!(throughput.elapsed_s > 0)) continue;
    values.push_back(throughput.samples / throughput.elapsed_s);
    result->add_samples_per_s_by_block(values.back());
    result->add_block(block);
  }
  if (!values.empty()) *result->mutable_samples_per_s() = MedianInterval(values);
}

std::vector<double> StepTimesUs(const RunRecord& run, bool own_times) {
  std::vector<double> times_us;
  const size_t end = CommonSteps(run);
  for (auto i = static_cast<size_t>(WarmupSteps(run.steps())); i < end; ++i) {
    int64_t start_ns = INT64_MAX;
    int64_t end_ns = INT64_MIN;
    for (const MemberRecord& worker : run.workers) {
      const StepDone& step = worker.steps[i];
      if (own_times) {
        times_us.push_back(static_cast<double>(EndNs(step) - step.start_ns()) /
                           kNanosecondsPerMicrosecond);
      }
      start_ns = std::min(start_ns, step.start_ns());
      end_ns = std::max(end_ns, EndNs(step));
    }
    if (!own_times) {
      times_us.push_back(static_cast<double>(end_ns - start_ns) / kNanosecondsPerMicrosecond);
    }
  }
  return times_us;
}

void AggregateStepTimes(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  std::vector<double> times_us;
  for (const RunRecord* run : runs) {
    const std::vector<double> one = StepTimesUs(*run, result->mode() == "none");
    times_us.insert(times_us.end(), one.begin(), one.end());
  }
  if (times_us.empty()) return;
  result->mutable_step_us()->set_p50(Quantile(times_us, 0.50));
  result->mutable_step_us()->set_p95(Quantile(times_us, 0.95));
  result->mutable_step_us()->set_max(Quantile(times_us, 1.0));
}

void AggregateAnatomy(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  double compute_ns = 0;
  double sync_ns = 0;
  double count = 0;
  for (const RunRecord* run : runs) {
    const size_t end = CommonSteps(*run);
    for (const MemberRecord& worker : run->workers) {
      for (auto i = static_cast<size_t>(WarmupSteps(run->steps())); i < end; ++i) {
        compute_ns += static_cast<double>(worker.steps[i].compute_ns());
        sync_ns += static_cast<double>(worker.steps[i].sync_ns());
        ++count;
      }
    }
  }
  if (count == 0) return;
  result->mutable_anatomy_us()->set_compute(compute_ns / count / kNanosecondsPerMicrosecond);
  result->mutable_anatomy_us()->set_sync(sync_ns / count / kNanosecondsPerMicrosecond);
}

// Mean over workers and runs of the loss of each step that all of them finished.
void AggregateLoss(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  size_t steps = CommonSteps(*runs[0]);
  for (const RunRecord* run : runs) steps = std::min(steps, CommonSteps(*run));
  std::vector<double> values(steps, 0);
  for (size_t i = 0; i < steps; ++i) {
    double count = 0;
    for (const RunRecord* run : runs) {
      for (const MemberRecord& worker : run->workers) {
        values[i] += worker.steps[i].loss();
        ++count;
      }
    }
    values[i] /= count;
  }
  LossResult* loss = result->mutable_loss();
  size_t first_bad = 0;  // 1-based
  for (size_t i = 0; i < steps; ++i) {
    if (!std::isfinite(values[i])) {
      if (first_bad == 0) first_bad = i + 1;
      continue;  // JSON has no NaN
    }
    loss->add_step(static_cast<double>(i + 1));
    loss->add_value(values[i]);
  }
  double sum = 0;
  const size_t tail = std::min(kFinalLossSteps, steps);
  for (size_t i = steps - tail; i < steps; ++i) sum += values[i];
  if (steps == 0) {
    loss->set_final_reason("no step was finished by every worker");
  } else if (!std::isfinite(sum)) {
    loss->set_final_reason(absl::StrCat("the loss is not finite since step ", first_bad));
  } else {
    loss->set_final(sum / static_cast<double>(tail));
  }
}

absl::Status CheckSameVariant(const std::vector<RunRecord>& runs) {
  if (runs.empty()) return absl::InvalidArgumentError("aggregate: no run");
  const RunConfig& first = runs[0].config;
  for (const RunRecord& run : runs) {
    const RunConfig& config = run.config;
    if (config.variant().SerializeAsString() != first.variant().SerializeAsString() ||
        config.world_size() != first.world_size() || config.servers() != first.servers() ||
        run.steps() != runs[0].steps()) {
      return absl::InvalidArgumentError(
          absl::StrCat("aggregate: runs of different variants: ", first.variant().name(), " with ",
                       first.world_size(), " workers, ", first.servers(), " servers, ",
                       runs[0].steps(), " steps, and ", config.variant().name(), " with ",
                       config.world_size(), ", ", config.servers(), ", ", run.steps()));
    }
  }
  if (first.world_size() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("aggregate: ", first.variant().name(), " has no workers"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VariantResult> Aggregate(const std::vector<RunRecord>& runs,
                                        const SnapshotReader& snapshots) {
  RETURN_IF_ERROR(CheckSameVariant(runs));
  const RunConfig& config = runs[0].config;
  VariantResult result;
  result.set_id(config.variant().name());
  result.set_label(LabelOf(config.variant(), config.servers()));
  result.set_mode(ModeOf(config.variant()));
  result.set_algorithm(AlgorithmOf(config.variant()));
  result.set_workers(config.world_size());
  result.set_servers(config.servers());
  result.set_ranked(result.mode() != "none");

  std::vector<const RunRecord*> all;
  std::vector<const RunRecord*> complete;
  for (const RunRecord& run : runs) {
    all.push_back(&run);
    if (run.complete) complete.push_back(&run);
  }
  result.set_complete(complete.size() == all.size());
  const std::vector<const RunRecord*>& measured = complete.empty() ? all : complete;
  AggregateThroughput(measured, &result);
  AggregateStepTimes(measured, &result);
  AggregateAnatomy(measured, &result);
  AggregateLoss(measured, &result);
  RETURN_IF_ERROR(AggregateBytes(measured, &result));
  AggregateReplicas(all, snapshots, &result);
  return result;
}

}  // namespace lockstep
