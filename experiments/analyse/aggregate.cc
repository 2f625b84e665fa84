#include "experiments/analyse/aggregate.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "experiments/analyse/anatomy.h"
#include "experiments/analyse/balance.h"
#include "experiments/analyse/bytes.h"
#include "experiments/analyse/loss.h"
#include "experiments/analyse/prediction.h"
#include "experiments/analyse/recovery.h"
#include "experiments/analyse/server_load.h"
#include "experiments/analyse/staleness.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1e3;
constexpr double kNanosecondsPerSecond = 1e9;
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
    const std::vector<double> one = StepTimesUs(*run, !IsSynchronous(result->mode()));
    times_us.insert(times_us.end(), one.begin(), one.end());
  }
  if (times_us.empty()) return;
  result->mutable_step_us()->set_p50(Quantile(times_us, 0.50));
  result->mutable_step_us()->set_p95(Quantile(times_us, 0.95));
  result->mutable_step_us()->set_max(Quantile(times_us, 1.0));
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

std::string AdditionOrder(const std::vector<RunRecord>& runs) {
  for (const RunRecord& run : runs) {
    if (!run.workers.empty() && !run.workers[0].set_up.addition_order().empty()) {
      return run.workers[0].set_up.addition_order();
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<VariantResult> Aggregate(const std::vector<RunRecord>& runs,
                                        const SnapshotReader& snapshots) {
  RETURN_IF_ERROR(CheckSameVariant(runs));
  const RunConfig& config = runs[0].config;
  VariantResult result;
  result.set_id(config.variant().name());
  result.set_variant(config.variant().name());
  result.set_label(LabelOf(config.variant(), config.servers()));
  result.set_mode(ModeOf(config.variant()));
  result.set_algorithm(AlgorithmOf(config.variant()));
  result.set_workers(config.world_size());
  result.set_servers(config.servers());
  result.set_rate(RateOf(config.variant()));
  result.set_ranked(result.mode() != "none");
  const AllReduceSync& sync = config.variant().all_reduce();
  if (config.experiment().share_gpu() || sync.nccl().share_gpu() || sync.cuda().share_gpu()) {
    result.set_time_shared(true);
  }
  result.set_addition_order(AdditionOrder(runs));

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
  AggregateBalance(measured, &result);
  AggregateServerLoad(measured, &result);
  AggregateStaleness(measured, &result);
  AggregateSynchrony(measured, &result);
  AggregateRecovery(all, &result);
  AggregatePushes(measured, &result);
  AggregatePrediction(measured, &result);
  AggregateReplicas(all, snapshots, &result);
  return result;
}

}  // namespace lockstep
