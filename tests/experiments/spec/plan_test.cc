#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiments/spec/conflicts.h"
#include "ps_server/core/partition.h"
#include "ps_server/wire/frame.h"
#include "tests/experiments/spec/spec_support.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

// The header and the blocks are those of the parameter server.
static_assert(kShardBlockElements == kBlockElements);
static_assert(kMessageHeaderBytes == kFrameHeaderBytesMax);

std::vector<std::string> Order(const std::vector<RunConfig>& runs) {
  std::vector<std::string> order;
  order.reserve(runs.size());
  for (const RunConfig& run : runs) {
    order.push_back(absl::StrCat(run.block(), " ", run.variant().name(), " ", run.seed()));
  }
  return order;
}

// Golden: a record names its blocks, and a repeated experiment must repeat their order.
TEST(PlanRunsTest, OrderIsTheSameEveryTime) {
  const LoadedSpec spec = Load(ValidSpec());
  ASSERT_THAT(spec.status(), IsOk());
  EXPECT_THAT(Order(PlanRuns(spec.experiment)),
              testing::ElementsAre("0 ring 1", "0 none 1", "0 ps 1",  //
                                   "1 none 1", "1 ps 1", "1 ring 1",  //
                                   "2 ps 1", "2 ring 1", "2 none 1"));
}

TEST(PlanRunsTest, EveryBlockHasEveryVariantOncePerSeed) {
  const LoadedSpec spec = Load(ValidSpec(), {"train.seeds=[3, 4]", "blocks=20"});
  ASSERT_THAT(spec.status(), IsOk());
  const std::vector<RunConfig> runs = PlanRuns(spec.experiment);
  ASSERT_EQ(runs.size(), 120u);
  EXPECT_EQ(EstimateSize(spec.experiment).runs, 120);
  std::vector<std::string> first_of_block;
  for (int block = 0; block < 20; ++block) {
    const auto first = runs.begin() + std::ptrdiff_t{6} * block;
    std::vector<std::string> order = Order({first, first + 6});
    first_of_block.push_back(first->variant().name());
    std::vector<std::string> expected;
    for (const char* name : {"none", "ps", "ring"}) {
      for (const int seed : {3, 4}) expected.push_back(absl::StrCat(block, " ", name, " ", seed));
    }
    EXPECT_THAT(order, testing::UnorderedElementsAreArray(expected));
  }
  for (const char* name : {"none", "ps", "ring"}) {
    EXPECT_THAT(first_of_block, testing::Contains(name)) << "the order is not random";
  }
}

TEST(PlanRunsTest, FirstBlocksDoNotDependOnTheirNumber) {
  const std::vector<std::string> few = Order(PlanRuns(Load(ValidSpec(), {"blocks=2"}).experiment));
  std::vector<std::string> many = Order(PlanRuns(Load(ValidSpec(), {"blocks=9"}).experiment));
  many.resize(few.size());
  EXPECT_EQ(few, many);
}

// The product: each block runs every variant with every number of workers once.
TEST(PlanRunsTest, SweepOfWorkers) {
  const LoadedSpec spec = Load(ValidSpec(), {"workers=[1, 2, 4]", "blocks=5"});
  ASSERT_THAT(spec.status(), IsOk());
  EXPECT_EQ(EstimateSize(spec.experiment).runs, 45);
  const std::vector<RunConfig> runs = PlanRuns(spec.experiment);
  ASSERT_EQ(runs.size(), 45u);
  std::set<std::vector<std::string>> orders;
  for (int block = 0; block < 5; ++block) {
    std::vector<std::string> order;
    for (int i = 0; i < 9; ++i) {
      const RunConfig& run = runs[9 * static_cast<size_t>(block) + static_cast<size_t>(i)];
      EXPECT_EQ(run.block(), block);
      ASSERT_EQ(run.experiment().workers_size(), 1);
      EXPECT_EQ(run.experiment().workers(0), run.world_size());
      order.push_back(absl::StrCat(run.variant().name(), " ", run.world_size()));
    }
    orders.insert(order);
    EXPECT_THAT(order, testing::UnorderedElementsAre("none 1", "none 2", "none 4", "ps 1", "ps 2",
                                                     "ps 4", "ring 1", "ring 2", "ring 4"));
  }
  EXPECT_GT(orders.size(), 1u) << "the order is not random";
}

TEST(PlanRunsTest, RanksThatOnlySumAreServers) {
  const LoadedSpec spec =
      Load(ValidSpec(), {"variant[ring].all_reduce={ algorithm: PS_EXCHANGE servers: 3 }"});
  ASSERT_THAT(spec.status(), IsOk());
  for (const RunConfig& run : PlanRuns(spec.experiment)) {
    if (run.variant().name() != "ring") continue;
    EXPECT_EQ(run.servers(), 3);
  }
  EXPECT_EQ(EstimateSize(spec.experiment).processes_max, 7);
  EXPECT_EQ(PlanRuns(Load(ValidSpec(),
                          {"variant[ring].all_reduce={ algorithm: PS_EXCHANGE }", "blocks=1"})
                         .experiment)
                .front()
                .servers(),
            1);
}

TEST(PlanRunsTest, ARunIsComplete) {
  const LoadedSpec spec = Load(ValidSpec(), {"blocks=1"});
  for (const RunConfig& run : PlanRuns(spec.experiment)) {
    EXPECT_EQ(run.world_size(), 4);
    EXPECT_EQ(run.servers(), run.variant().has_ps() ? 2 : 0);
    EXPECT_EQ(run.experiment().bucket_cap_mb_size(), 1);
    EXPECT_EQ(run.experiment().wire_dtype_size(), 1);
    EXPECT_EQ(run.experiment().workers_size(), 1);
    EXPECT_EQ(run.experiment().train().global_batch_size(), 1);
  }
}

TEST(EstimateSizeTest, TooManyRunsAreRefused) {
  const LoadedSpec spec =
      Load(ValidSpec(), {"train.seeds=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", "blocks=334"});
  ExpectErrors(
      spec, {{0, {"--set blocks=334", "334 blocks of 3 variants and 10 seeds make 10020 runs"}}});
  EXPECT_THAT(Load(ValidSpec(), {"train.seeds=[1, 2, 3]", "blocks=1000"}).status(), IsOk());
}

TEST(EstimateSizeTest, CountsProcessesPortsAndParameters) {
  const ExperimentSize size = EstimateSize(Load(ValidSpec()).experiment);
  ASSERT_EQ(size.variants.size(), 3u);
  EXPECT_EQ(size.variants[0].processes, 4);
  EXPECT_EQ(size.variants[1].processes, 6);
  EXPECT_EQ(size.variants[1].servers, 2);
  EXPECT_EQ(size.variants[2].processes, 4);
  EXPECT_EQ(size.processes_max, 6);
  EXPECT_EQ(size.ports_max, 7);
  EXPECT_EQ(size.runs, 9);
  EXPECT_EQ(size.parameters, 64 * 32 + 32 + 32 * 10 + 10);
  EXPECT_EQ(size.gradient_bytes, 4 * size.parameters);
  const LoadedSpec half =
      Load(ValidSpec(), {"variant={ name: \"v\" all_reduce {} }", "wire_dtype=BF16"});
  EXPECT_EQ(EstimateSize(half.experiment).gradient_bytes, 2 * size.parameters);
}

}  // namespace
}  // namespace lockstep
