#include "experiments/simulate/chaos.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/numeric/random.h"

namespace lockstep {
namespace {

constexpr int64_t kTensorElements = 20;  // two tensors a shard: three chunks of a push
constexpr double kStepMs = 20;

Limits ChaosLimits() {
  Limits limits;
  limits.join_timeout_ms = 3'000;
  limits.connect_timeout_ms = 400;
  limits.sync_timeout_ms = 600;
  limits.heartbeat_ms = 50;
  limits.lease_ms = 300;
  limits.stop_grace_ms = 200;
  limits.settle_ms = 50;
  limits.answer_grace_ms = 100;
  limits.rebuild_timeout_ms = 5'000;
  limits.chunk_bytes = 64;
  limits.staged_bytes_max = 1 << 20;
  return limits;
}

class CaseDrawer {
 public:
  CaseDrawer(const ChaosOptions& options, uint64_t seed)
      : options_(options), random_(seed, 5), seed_(seed) {}

  ChaosCase Draw() {
    ChaosCase drawn;
    drawn.seed = seed_;
    ClusterOptions& cluster = drawn.cluster;
    cluster.seed = seed_;
    cluster.limits = ChaosLimits();
    cluster.makers = options_.makers;
    RunConfig& run = cluster.run;
    run.set_world_size(Between(2, 4));
    run.set_servers(Between(2, 4));
    Experiment& experiment = *run.mutable_experiment();
    experiment.mutable_train()->set_steps(Between(6, 14));
    Sgd* sgd = experiment.mutable_train()->mutable_optimizer()->mutable_sgd();
    sgd->set_learning_rate(0.1);
    sgd->set_momentum(Between(0, 1) == 0 ? 0 : 0.5);
    DrawPs(&run);
    cluster.tensor_counts.assign(2 * static_cast<size_t>(run.servers()), kTensorElements);
    cluster.colocated = Between(0, 4) == 0;
    cluster.step_times = {.mean_ns = kStepMs * 1e6, .exponential = Between(0, 1) == 0};
    cluster.network = {.cost = {.latency_ns = 50e3, .overhead_ns = 2e3, .beta_ns_per_byte = 8},
                       .jitter_ns = 200e3,
                       .stream_timeout_ns = 2 * 1e6 * static_cast<double>(cluster.limits.lease_ms)};
    drawn.plan_options = PlanOptionsOf(cluster);
    drawn.plan = DrawPlan(drawn.plan_options, seed_);
    return drawn;
  }

 private:
  int32_t Between(int32_t least, int32_t most) {
    return least + static_cast<int32_t>(random_.Below(static_cast<uint32_t>(most - least + 1)));
  }

  void DrawPs(RunConfig* run) {
    Ps& ps = *run->mutable_variant()->mutable_ps();
    const Ps::Mode drawn_mode = static_cast<Ps::Mode>(Between(0, 3));
    const Ps::Mode mode = options_.mode.value_or(drawn_mode);
    ps.set_mode(mode);
    if (mode == Ps::BOUNDED) ps.set_staleness(Between(0, 3));
    if (mode == Ps::K_OF_N) {
      ps.set_k(Between(1, run->world_size()));
      ps.set_late(Between(0, 1) == 0 ? Ps::DROP : Ps::APPLY);
    }
    const Ps::Policy drawn_policy = Between(0, 3) == 0 ? Ps::SNAPSHOT : Ps::CHAIN;
    ps.set_policy(options_.policy.value_or(drawn_policy));
    ps.set_replicas(std::min(Between(1, 2), run->servers() - 1));
    ps.set_aggregated(Between(0, 1) == 0);
    ps.set_snapshot_every(Between(1, 4));
    const bool shrinks = Between(0, 3) == 0;
    ps.set_on_worker_loss(ps.policy() == Ps::NONE ? Ps::STOP : shrinks ? Ps::SHRINK : Ps::REPLACE);
  }

  static PlanOptions PlanOptionsOf(const ClusterOptions& cluster) {
    const RunConfig& run = cluster.run;
    const Ps& ps = run.variant().ps();
    PlanOptions plan;
    plan.workers = run.world_size();
    plan.servers = run.servers();
    plan.steps = run.experiment().train().steps();
    plan.run_ms = kStepMs * static_cast<double>(plan.steps) * 1.5;
    plan.lease_ms = static_cast<double>(cluster.limits.lease_ms);
    plan.snapshots = ps.policy() == Ps::SNAPSHOT;
    plan.losses_max = ps.policy() == Ps::CHAIN ? ps.replicas() : 2;
    return plan;
  }

  const ChaosOptions& options_;
  Random random_;
  const uint64_t seed_;
};

bool Broke(const ChaosCase& drawn, const Plan& plan) {
  return !RunCluster(drawn.cluster, plan).broken.empty();
}

}  // namespace

std::string ChaosCase::ToString() const {
  const RunConfig& run = cluster.run;
  const Ps& ps = run.variant().ps();
  std::string mode = absl::AsciiStrToLower(Ps::Mode_Name(ps.mode()));
  if (ps.mode() == Ps::BOUNDED) absl::StrAppend(&mode, " by ", ps.staleness());
  if (ps.mode() == Ps::K_OF_N) {
    absl::StrAppend(&mode, " with k ", ps.k(), ps.late() == Ps::DROP ? ", drops" : ", applies");
  }
  std::string policy = absl::AsciiStrToLower(Ps::Policy_Name(ps.policy()));
  if (ps.policy() == Ps::CHAIN) {
    absl::StrAppend(&policy, " of ", ps.replicas() + 1, ps.aggregated() ? ", aggregated" : "");
  }
  if (ps.policy() == Ps::SNAPSHOT) absl::StrAppend(&policy, " every ", ps.snapshot_every());
  return absl::StrCat(mode, "; ", policy, "; lost workers: ",
                      absl::AsciiStrToLower(Ps::OnWorkerLoss_Name(ps.on_worker_loss())), "; ",
                      run.world_size(), " workers, ", run.servers(), " servers",
                      cluster.colocated ? " on shared hosts" : "", ", ",
                      run.experiment().train().steps(), " steps");
}

ChaosCase DrawCase(const ChaosOptions& options, uint64_t seed) {
  return CaseDrawer(options, seed).Draw();
}

ChaosReport RunChaos(const ChaosOptions& options, uint64_t first, int64_t seeds,
                     int64_t failures_max,
                     const std::function<void(const ChaosReport&)>& progress) {
  ChaosReport report;
  for (int64_t i = 0; i < seeds; ++i) {
    const ChaosCase drawn = DrawCase(options, first + static_cast<uint64_t>(i));
    const ClusterResult result = RunCluster(drawn.cluster, drawn.plan);
    ++report.runs;
    report.completed += result.outcome.ok() ? 1 : 0;
    report.undisturbed += result.epochs == 1 ? 1 : 0;
    report.epochs += result.epochs;
    report.events += result.events;
    report.virtual_s += result.elapsed_ms / 1e3;
    if (!result.broken.empty()) {
      ChaosFailure failure;
      failure.seed = drawn.seed;
      failure.what = drawn.ToString();
      failure.plan = drawn.plan;
      failure.shrunk =
          Shrink(drawn.plan, [&drawn](const Plan& plan) { return Broke(drawn, plan); });
      failure.broken = RunCluster(drawn.cluster, failure.shrunk).broken;
      report.failures.push_back(std::move(failure));
    }
    if (progress) progress(report);
    if (static_cast<int64_t>(report.failures.size()) >= failures_max) break;
  }
  return report;
}

}  // namespace lockstep
