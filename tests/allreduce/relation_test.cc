// CASES R66: the ways to all-reduce are one thing in several orders. The same random inputs through
// the parameter servers' exchange, reduce + broadcast, reduce-scatter + all-gather, ring and tree
// agree within rounding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/communicator.h"
#include "allreduce/transport/in_process.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 1003;

struct Relation {
  std::string name;
  Algorithm algorithm = Algorithm::kRing;
  int servers = 0;
  bool in_two = false;  // reduce + broadcast on a tree, reduce-scatter + all-gather on a ring
};

std::vector<float> InputOf(int rank) {
  std::mt19937 random(static_cast<uint32_t>(rank) + 1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> input(kCount);
  for (float& value : input) value = uniform(random);
  return input;
}

absl::Status Combine(const Relation& relation, Communicator* c, std::vector<float>* data) {
  if (!relation.in_two) return c->AllReduce(data->data(), kCount, Dtype::kF32, ReduceOp::kSum);
  if (relation.algorithm == Algorithm::kTree) {
    RETURN_IF_ERROR(c->Reduce(data->data(), kCount, Dtype::kF32, ReduceOp::kSum, /*root=*/0));
    return c->Broadcast(data->data(), kCount, Dtype::kF32, /*root=*/0);
  }
  RETURN_IF_ERROR(c->ReduceScatter(data->data(), kCount, Dtype::kF32, ReduceOp::kSum));
  return c->AllGather(data->data(), kCount, Dtype::kF32);
}

class RelationTest : public testing::TestWithParam<std::tuple<Relation, int>> {};

TEST_P(RelationTest, EqualsTheSumWithinRounding) {
  const auto& [relation, n] = GetParam();
  const int world_size = n + relation.servers;
  const MonotonicClock clock;
  const Abort abort;
  std::vector<std::unique_ptr<Link>> links =
      MakeInProcessLinks({world_size, 1}, TestLimits(), clock, abort);
  std::vector<std::vector<float>> results(static_cast<size_t>(world_size));
  OnEachRank(world_size, [&, &relation = relation](int rank) {
    CommunicatorOptions options;
    options.algorithm = relation.algorithm;
    options.servers = relation.servers;
    const auto communicator =
        MakeHostCommunicator(std::move(links[static_cast<size_t>(rank)]), clock, options);
    std::vector<float>& data = results[static_cast<size_t>(rank)];
    data = InputOf(rank);
    EXPECT_THAT(Combine(relation, communicator.get(), &data), IsOk());
  });
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < n; ++rank) inputs.push_back(InputOf(rank));
  for (int64_t i = 0; i < kCount; ++i) {
    double sum = 0;
    double magnitudes = 0;
    for (const std::vector<float>& input : inputs) {
      const double value = input[static_cast<size_t>(i)];
      sum += value;
      magnitudes += std::abs(value);
    }
    const double bound = (n - 1) * magnitudes * 0x1p-24;  // n - 1 roundings of partial sums
    for (int rank = 0; rank < n; ++rank) {
      ASSERT_NEAR(results[static_cast<size_t>(rank)][static_cast<size_t>(i)], sum, bound)
          << relation.name << ", rank " << rank << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, RelationTest,
    testing::Combine(
        testing::Values(Relation{"ps_exchange", Algorithm::kPsExchange, 2},
                        Relation{"reduce_broadcast", Algorithm::kTree, 0, true},
                        Relation{"reduce_scatter_all_gather", Algorithm::kRing, 0, true},
                        Relation{"ring", Algorithm::kRing}, Relation{"tree", Algorithm::kTree}),
        testing::Values(2, 3, 4)),
    [](const auto& param) {
      return absl::StrCat(std::get<0>(param.param).name, "_n", std::get<1>(param.param));
    });

}  // namespace
}  // namespace lockstep
