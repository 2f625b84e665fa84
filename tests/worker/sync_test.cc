// The ways to stay in step over one seam, in one process: what an update is worth, and equal
// replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allreduce/communicator.h"
#include "allreduce/transport/in_process.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/status.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/cluster.h"
#include "worker/sync/all_reduce.h"
#include "worker/sync/local.h"

namespace lockstep {
namespace {

constexpr int kWorkers = 4;

// Each of 4 ranks starts at `start[rank]` and takes one step with gradient rank + 1, learning
// rate 1.
std::vector<std::vector<float>> OneRingStep(float divisor, const std::vector<float>& start,
                                            int64_t count) {
  const MonotonicClock clock;
  const Abort abort;
  const Limits limits;
  auto links = MakeInProcessLinks({.world_size = kWorkers}, limits, clock, abort);
  std::vector<std::vector<float>> parameters;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorkers; ++rank) {
    parameters.emplace_back(static_cast<size_t>(count), start[static_cast<size_t>(rank)]);
  }
  for (int rank = 0; rank < kWorkers; ++rank) {
    threads.emplace_back([&, rank] {
      AllReduceSynchronizer sync(
          MakeHostCommunicator(std::move(links[static_cast<size_t>(rank)]), clock, {}),
          {.tensors = {{"only", {.offset = 0, .count = count}}},
           .optimizer = {.learning_rate = 1, .momentum = 0, .divisor = divisor}});
      std::vector<float> gradients(static_cast<size_t>(count), static_cast<float>(rank + 1));
      std::vector<float>& mine = parameters[static_cast<size_t>(rank)];
      EXPECT_THAT(sync.Begin(mine), IsOk());
      EXPECT_THAT(sync.GradientReady(1, {.offset = 0, .count = count, .tensors = 1}, gradients),
                  IsOk());
      EXPECT_THAT(sync.Finish(1, gradients, mine), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return parameters;
}

// CASES R16: gradients 1, 2, 3, 4 make 10 as a sum and 2.5 as a mean.
TEST(SyncTest, RingSumAndMean) {
  for (const auto& [divisor, update] : {std::pair{1.0F, 10.0F}, std::pair{4.0F, 2.5F}}) {
    const auto parameters = OneRingStep(divisor, {0, 0, 0, 0}, 5);
    for (const std::vector<float>& copy : parameters) EXPECT_THAT(copy, testing::Each(-update));
  }
}

// CASES R26: every worker starts from rank 0's values, whatever its own were.
TEST(SyncTest, RingSpreadsStartValues) {
  const auto parameters = OneRingStep(4, {7, 1, 2, 3}, 3);
  for (const std::vector<float>& copy : parameters) EXPECT_THAT(copy, testing::Each(7 - 2.5F));
}

// CASES R20: a model may hold nothing at all.
TEST(SyncTest, RingWithoutElements) {
  for (const std::vector<float>& copy : OneRingStep(4, {0, 0, 0, 0}, 0))
    EXPECT_THAT(copy, testing::IsEmpty());
}

// The engine knows ranks; who reads the summary knows members.
TEST(SyncTest, AMissingRankAfterTheWorkersIsAServer) {
  const MonotonicClock clock;
  const Abort abort;
  ClusterOptions options;
  options.n = 2;
  options.servers = 1;
  options.algorithm = Algorithm::kPsExchange;
  auto links = MakeInProcessLinks({.world_size = 3}, Limits{}, clock, abort);
  links[2].reset();  // the server is gone
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      statuses[r] = RunRank(options, std::move(links[r]), rank, clock, abort).status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(BlamedBy(status), testing::ElementsAre("server 0"));
  }
}

TEST(SyncTest, LocalFollowsItsOwnGradient) {
  LocalSynchronizer sync({.learning_rate = 1, .momentum = 0.5F, .divisor = 1}, 2);
  std::vector<float> parameters = {1, 2};
  std::vector<float> gradients = {1, -1};
  EXPECT_THAT(sync.Begin(parameters), IsOk());
  for (int step = 1; step <= 2; ++step)
    EXPECT_THAT(sync.Finish(step, gradients, parameters), IsOk());
  EXPECT_THAT(parameters, testing::ElementsAre(1 - 1 - 1.5F, 2 + 1 + 1.5F));
  EXPECT_THAT(std::vector<float>(sync.optimizer_state().begin(), sync.optimizer_state().end()),
              testing::ElementsAre(1.5F, -1.5F));
  EXPECT_EQ(sync.traffic().sent_bytes, 0);
}

}  // namespace
}  // namespace lockstep
