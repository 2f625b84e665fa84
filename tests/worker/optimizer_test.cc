// The optimizer on the worker's own parameters, whatever synchronises: Adam and AdamW as in one
// process, and as if nothing had happened where a group was rebuilt.
#include "base/numeric/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "allreduce/communicator.h"
#include "allreduce/transport/in_process.h"
#include "base/abort.h"
#include "base/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/cluster.h"
#include "worker/sync/all_reduce.h"
#include "worker/sync/local.h"

namespace lockstep {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kCount = 37;

// Small integers and quarters, so that sums of two are exact in any order.
float GradientAt(int64_t step, int rank, int64_t i) {
  return static_cast<float>((step * 7 + rank * 3 + i) % 11 - 5) / 4.0F;
}

std::vector<float> GradientsOf(int64_t step, int rank) {
  std::vector<float> gradients(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    gradients[static_cast<size_t>(i)] = GradientAt(step, rank, i);
  }
  return gradients;
}

struct Reference {
  explicit Reference(const OptimizerOptions& rule)
      : options(rule), state(static_cast<size_t>(kCount * StateSlots(rule.kind))) {}

  void Step(int64_t step, const std::vector<float>& sum) {
    OptimizerStep(options, step, sum.data(), state.data(), kCount, parameters.data(),
                  parameters.data(), kCount);
  }
  void StepOfAll(int64_t step) {
    std::vector<float> sum = GradientsOf(step, 0);
    const std::vector<float> other = GradientsOf(step, 1);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    Step(step, sum);
  }
  OptimizerOptions options;
  std::vector<float> parameters = std::vector<float>(kCount, 1.0F);
  std::vector<float> state;
};

class OptimizerKindTest : public testing::TestWithParam<OptimizerKind> {
 protected:
  static OptimizerOptions Rule(float divisor) {
    return {.learning_rate = 0.25F,
            .momentum = 0.5F,
            .divisor = divisor,
            .kind = GetParam(),
            .weight_decay = 0.125F};
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, OptimizerKindTest,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam,
                                         OptimizerKind::kAdamW),
                         [](const auto& row) -> std::string {
                           if (row.param == OptimizerKind::kSgd) return "Sgd";
                           return row.param == OptimizerKind::kAdam ? "Adam" : "AdamW";
                         });

TEST_P(OptimizerKindTest, LocalMakesItsOwnSteps) {
  LocalSynchronizer sync(Rule(1), kCount);
  Reference reference(Rule(1));
  std::vector<float> parameters(kCount, 1.0F);
  ASSERT_THAT(sync.Begin(parameters), IsOk());
  for (int64_t step = 1; step <= 5; ++step) {
    std::vector<float> gradients = GradientsOf(step, 0);
    ASSERT_THAT(sync.Finish(step, gradients, parameters), IsOk());
    reference.Step(step, GradientsOf(step, 0));
    EXPECT_EQ(parameters, reference.parameters) << "step " << step;
  }
  EXPECT_THAT(sync.optimizer_state(), testing::ElementsAreArray(reference.state));
}

// One rank: what it has, and the steps it makes in a group.
struct Rank {
  std::vector<float> parameters = std::vector<float>(kCount, 1.0F);
  HeldState held;
};

// Makes steps (from, to] in a group of its own; [rank].
void RunGroup(const OptimizerOptions& rule, int64_t from, int64_t to, std::vector<Rank>* ranks) {
  const MonotonicClock clock;
  const Abort abort;
  auto links = MakeInProcessLinks({.world_size = kRanks}, Limits{}, clock, abort);
  std::vector<std::thread> threads;
  threads.reserve(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      Rank& rank = (*ranks)[static_cast<size_t>(r)];
      AllReduceOptions options{.tensors = {{"only", {.offset = 0, .count = kCount}}},
                               .optimizer = rule};
      if (from > 0) {
        options.hand_over = HandOver{.source = 0, .step = from, .held = rank.held};
      }
      AllReduceSynchronizer sync(
          MakeHostCommunicator(std::move(links[static_cast<size_t>(r)]), clock, {}), options);
      const auto after = sync.Begin(rank.parameters);
      ASSERT_THAT(after, IsOk());
      EXPECT_EQ(*after, from);
      for (int64_t step = from + 1; step <= to; ++step) {
        std::vector<float> gradients = GradientsOf(step, r);
        ASSERT_THAT(
            sync.GradientReady(step, {.offset = 0, .count = kCount, .tensors = 1}, gradients),
            IsOk());
        ASSERT_THAT(sync.Finish(step, gradients, rank.parameters), IsOk());
      }
      rank.held = sync.Held(to);
      EXPECT_EQ(rank.held.step, to);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A replacement takes parameters, moments and the count of steps: a rebuilt group leaves no trace
// in the bits.
TEST_P(OptimizerKindTest, AReplacementGoesOnWithTheStateOfTheOthers) {
  const OptimizerOptions rule = Rule(kRanks);
  Reference reference(rule);
  for (int64_t step = 1; step <= 5; ++step) reference.StepOfAll(step);
  std::vector<Rank> ranks(kRanks);
  RunGroup(rule, 0, 3, &ranks);
  ranks[1] = {.parameters = std::vector<float>(kCount, -9.0F), .held = {}};
  RunGroup(rule, 3, 5, &ranks);
  for (const Rank& rank : ranks) {
    EXPECT_EQ(rank.parameters, reference.parameters);
    EXPECT_EQ(rank.held.optimizer_state, reference.state);
  }
}

// The coordinator's number was compared with itself.
TEST(HandOver, AStateOfAnotherStepIsTakenByNobody) {
  const MonotonicClock clock;
  const Abort abort;
  auto links = MakeInProcessLinks({.world_size = kRanks}, Limits{}, clock, abort);
  std::vector<std::thread> threads;
  threads.reserve(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      AllReduceOptions options{.tensors = {{"only", {.offset = 0, .count = kCount}}}};
      options.hand_over = HandOver{.source = 0, .step = 4, .held = {.step = r == 0 ? 3 : 4}};
      AllReduceSynchronizer sync(
          MakeHostCommunicator(std::move(links[static_cast<size_t>(r)]), clock, {}), options);
      std::vector<float> parameters(kCount, static_cast<float>(r));
      EXPECT_THAT(sync.Begin(parameters).status(),
                  StatusIs(absl::StatusCode::kInternal,
                           "rank 0 hands over step 3, the coordinator says 4"));
      EXPECT_EQ(parameters, std::vector<float>(kCount, static_cast<float>(r)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep
