// Virtual time lands on the closed forms of synchronous, bounded and asynchronous training, and of
// chain replication. Step times are exponential and the network costs nothing, unless said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "experiments/simulate/cluster.h"

namespace lockstep {
namespace {

constexpr int32_t kSteps = 6'000;
constexpr double kMeanMs = 20;

ClusterOptions Free(Ps::Mode mode, int32_t workers, int32_t servers) {
  ClusterOptions options;
  options.run.set_world_size(workers);
  options.run.set_servers(servers);
  options.run.mutable_experiment()->mutable_train()->set_steps(kSteps);
  options.run.mutable_experiment()
      ->mutable_train()
      ->mutable_optimizer()
      ->mutable_sgd()
      ->set_learning_rate(0.05);
  options.run.mutable_variant()->mutable_ps()->set_mode(mode);
  options.tensor_counts.assign(static_cast<size_t>(servers), 4);
  options.limits.heartbeat_ms = 1'000;  // nobody fails here
  options.step_times = {.mean_ns = kMeanMs * 1e6, .exponential = true};
  options.network.stream_timeout_ns = 1e12;
  options.end_ms = 1e9;
  options.versions_max = -1;
  return options;
}

ClusterResult Undisturbed(const ClusterOptions& options) {
  ClusterResult result = RunCluster(options, {});
  EXPECT_TRUE(result.outcome.ok()) << result.outcome;
  EXPECT_EQ(result.epochs, 1);
  return result;
}

// Of a worker, while all work.
double StepsPerMs(const ClusterOptions& options) {
  const ClusterResult result = Undisturbed(options);
  return static_cast<double>(result.all_steps) / options.run.world_size() / result.all_ms;
}

double BoundedOverSync(int32_t workers, int32_t staleness) {
  ClusterOptions bounded = Free(Ps::BOUNDED, workers, 1);
  bounded.run.mutable_variant()->mutable_ps()->set_staleness(staleness);
  return StepsPerMs(bounded) / StepsPerMs(Free(Ps::SYNC, workers, 1));
}

TEST(TheoryTest, SyncTakesTheSlowestOfAll) {
  // mu H_n
  EXPECT_NEAR(1 / StepsPerMs(Free(Ps::SYNC, 4, 1)) / kMeanMs, 2.083, 2.083 * 0.05);
  EXPECT_NEAR(1 / StepsPerMs(Free(Ps::SYNC, 8, 1)) / kMeanMs, 2.718, 2.718 * 0.05);
}

TEST(TheoryTest, BoundedOverSync) {
  struct Row {
    int32_t workers;
    int32_t staleness;
    double ratio;
  };
  for (const Row& row :
       {Row{8, 1, 1.52}, {8, 2, 1.80}, {8, 4, 2.08}, {4, 1, 1.38}, {4, 2, 1.55}, {4, 4, 1.74}}) {
    const double ratio = BoundedOverSync(row.workers, row.staleness);
    std::printf("n = %d, s = %d: %.3f, theory %.2f\n", row.workers, row.staleness, ratio,
                row.ratio);
    EXPECT_NEAR(ratio, row.ratio, row.ratio * 0.05);
  }
}

TEST(TheoryTest, AsyncWaitsForNobody) {
  for (const auto& [workers, ratio] : {std::pair(4, 2.083), std::pair(8, 2.718)}) {
    const double measured =
        StepsPerMs(Free(Ps::ASYNC, workers, 1)) / StepsPerMs(Free(Ps::SYNC, workers, 1));
    std::printf("n = %d, async: %.3f, theory %.3f\n", workers, measured, ratio);
    EXPECT_NEAR(measured, ratio, ratio * 0.05);
  }
}

TEST(TheoryTest, FusedPushAndPullIsStaleByAllOthers) {
  for (const int32_t workers : {4, 8}) {
    const ClusterResult result = Undisturbed(Free(Ps::ASYNC, workers, 1));
    std::printf("n = %d: mean update staleness %.3f\n", workers, result.update_staleness);
    EXPECT_NEAR(result.update_staleness, workers - 1, (workers - 1) * 0.02);
  }
}

// Servers' ports bind, and nothing else takes time. Each server is head of one shard and tail of
// another, so roles are spread evenly.
double ChainSpeed(Ps::Mode mode, bool chain, bool aggregated, bool in_alone,
                  int64_t chunk_bytes = 4'096) {
  constexpr int32_t kWorkers = 4;
  constexpr int32_t kServers = 4;
  ClusterOptions options = Free(mode, kWorkers, kServers);
  Ps* ps = options.run.mutable_variant()->mutable_ps();
  ps->set_policy(chain ? Ps::CHAIN : Ps::NONE);
  ps->set_replicas(1);
  ps->set_aggregated(aggregated);
  options.run.mutable_experiment()->mutable_train()->set_steps(200);
  options.tensor_counts.assign(kServers, 16'384);
  options.limits.chunk_bytes = chunk_bytes;
  options.step_times = {.mean_ns = 0};
  options.network.window = 64;
  options.shape = [in_alone](SimNetwork* network) {
    for (int32_t server = 0; server < kServers; ++server) {
      network->SetCost(HostOfServer(server), 10, in_alone ? 0 : 10);
    }
  };
  return StepsPerMs(options);
}

TEST(TheoryTest, AChainCostsWhatItsBusiestPortCarries) {
  // Aggregated once a step: n / (n + 1), of the servers' incoming ports.
  const double sync = ChainSpeed(Ps::SYNC, false, true, true);
  const double aggregated = ChainSpeed(Ps::SYNC, true, true, true) / sync;
  const double per_push = ChainSpeed(Ps::SYNC, true, false, true) / sync;
  // Here both directions bind, and ports wait for each other in a pattern that the sizes of
  // messages decide (0.45 to 0.49): the mean over several.
  double async = 0;
  const std::vector<int64_t> chunk_sizes = {3'600, 4'096, 8'192, 16'384};
  for (const int64_t bytes : chunk_sizes) {
    async += ChainSpeed(Ps::ASYNC, true, true, false, bytes) /
             ChainSpeed(Ps::ASYNC, false, true, false, bytes) /
             static_cast<double>(chunk_sizes.size());
  }
  std::printf("aggregated %.3f (0.8), per push %.3f (0.5), async %.3f (0.5)\n", aggregated,
              per_push, async);
  EXPECT_NEAR(aggregated, 0.8, 0.08);
  EXPECT_NEAR(per_push, 0.5, 0.05);
  EXPECT_NEAR(async, 0.5, 0.05);
}

// Method: every host has a SIGKILL each 60 s on average, exponentially, for the whole run; steps
// take 500 ms, replacements run within 120 ms. A step is an attempt of a worker; ideal is that each
// failure costs every worker one attempt, the one that is under way.
TEST(TheoryTest, AFailureAMinuteAndHostCostsNoMoreThanTheStepUnderWay) {
  ClusterOptions options = Free(Ps::SYNC, 4, 3);
  constexpr double kMtbfMs = 60'000;
  constexpr double kStepMs = 500;
  const int32_t steps = 1'200;
  options.run.mutable_experiment()->mutable_train()->set_steps(steps);
  Ps* ps = options.run.mutable_variant()->mutable_ps();
  ps->set_policy(Ps::CHAIN);
  ps->set_replicas(1);
  ps->set_on_worker_loss(Ps::REPLACE);
  options.limits.heartbeat_ms = 50;
  options.limits.lease_ms = 300;
  options.limits.settle_ms = 50;
  options.step_times = {.mean_ns = kStepMs * 1e6};
  options.network.stream_timeout_ns = 600e6;
  options.network.cost.latency_ns = 50e3;
  Random random(9, 9);
  Plan plan;
  for (int32_t host = 0; host < 7; ++host) {
    const TroubleTarget target = host < 3 ? TroubleTarget{TroubleTarget::Role::kServer, host}
                                          : TroubleTarget{TroubleTarget::Role::kWorker, host - 3};
    double at_ms = 0;
    while (true) {
      at_ms += -std::log(1.0 - static_cast<double>(random.Uniform())) * kMtbfMs;
      if (at_ms > steps * kStepMs) break;
      plan.push_back({.trouble = Trouble::kKill, .target = target, .at_ms = at_ms});
    }
  }
  const ClusterResult result = RunCluster(options, plan);
  ASSERT_TRUE(result.outcome.ok()) << result.outcome;
  const double committed = 4.0 * steps;
  const double ideal = committed / (committed + 4.0 * static_cast<double>(plan.size()));
  const double efficiency = committed / static_cast<double>(result.attempts);
  std::printf("%zu failures, %ld groups: %.4f of attempts commit, ideal %.4f, time %.4f of it\n",
              plan.size(), static_cast<long>(result.epochs), efficiency, ideal,
              steps * kStepMs / result.training_ms);
  EXPECT_GE(efficiency / ideal, 0.99);
}

}  // namespace
}  // namespace lockstep
