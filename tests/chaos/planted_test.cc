// Each of these bugs is planted once, and chaos finds it; how many seeds it takes is printed.
#include "tests/chaos/planted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

#include "experiments/simulate/chaos.h"

namespace lockstep {
namespace {

struct Planted {
  const char* name;
  ChaosOptions options;
  int64_t seeds;           // that are enough
  bool in_ledger = false;  // it is seen there, not by a run that gives up
};

class PlantedTest : public testing::TestWithParam<Planted> {};

TEST_P(PlantedTest, IsFound) {
  const ChaosReport report = RunChaos(GetParam().options, 1, GetParam().seeds, 1, nullptr);
  ASSERT_EQ(report.failures.size(), 1U) << "not found by " << report.runs << " seeds";
  const ChaosFailure& found = report.failures.front();
  if (GetParam().in_ledger) {
    EXPECT_THAT(found.broken.front(), testing::Not(testing::StartsWith("the run ")));
  }
  std::printf("%s: found by seed %ld: %s\n%s\n", GetParam().name, static_cast<long>(report.runs),
              found.broken.front().c_str(), ToString(found.shrunk).c_str());
}

ChaosOptions With(SimMakers makers, Ps::Mode mode, Ps::Policy policy) {
  return {.mode = mode, .policy = policy, .makers = std::move(makers)};
}

std::vector<Planted> Bugs() {
  SimMakers wall = MakersWith<WallLeaseServer>();
  wall.coordinator = [](const SimContext& self, const MembershipConfig& config,
                        SimCoordinator::Events events) -> std::unique_ptr<SimCoordinator> {
    return std::make_unique<WallLeaseCoordinator>(self, config, std::move(events));
  };
  SimMakers open = MakersWith<HasNoFence>();
  open.worker = [](const SimContext& self, SimWorkerOptions options, const SimModel& model,
                   SimWorkerEvents events) -> std::unique_ptr<SimWorker> {
    return std::make_unique<WorkerWithoutLease>(self, std::move(options), model, std::move(events));
  };
  return {{"CountsRequests", With(MakersWith<CountsRequests>(), Ps::ASYNC, Ps::CHAIN), 200},
          {"AcknowledgesBeforeReplication",
           With(MakersWith<AcknowledgesFirst>(), Ps::ASYNC, Ps::CHAIN), 2'000},
          {"ForgetsDedupOnRestart", With(MakersWith<ForgetsDedup>(), Ps::ASYNC, Ps::SNAPSHOT), 200},
          {"HasNoEpochFence", With(open, Ps::ASYNC, Ps::CHAIN), 4'000, /*in_ledger=*/true},
          {"AppliesAChunkBeforeThePushIsWhole",
           With(MakersWith<AppliesChunks>(), Ps::SYNC, Ps::CHAIN), 10},
          {"LeaseOnWallClock", With(wall, Ps::SYNC, Ps::CHAIN), 500}};
}

INSTANTIATE_TEST_SUITE_P(Bugs, PlantedTest, testing::ValuesIn(Bugs()),
                         [](const auto& bug) { return std::string(bug.param.name); });

}  // namespace
}  // namespace lockstep
