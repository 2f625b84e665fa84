#include "experiments/analyse/staleness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/analyse/aggregate.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::ForSteps;
using synthetic::kMs;
using synthetic::RunWith;
using synthetic::Shape;
using ::testing::ElementsAre;
using ::testing::SizeIs;

const Shape kAsync = {.variant = "ps_async", .servers = 2};

VariantResult Result(const std::vector<RunRecord>& runs) {
  auto result = Aggregate(runs, nullptr);
  EXPECT_THAT(result, IsOk());
  return *std::move(result);
}

// Of 20 steps the last 10 count, of 4 workers: ranks 0 and 2 are 3 updates behind and no step,
// ranks 1 and 3 are 2 updates behind and 1 step. The two never meet in one histogram.
TEST(Staleness, HasOneHistogramACountAndServer) {
  const StalenessResult staleness = Result({synthetic::Run(kAsync)}).staleness();
  ASSERT_THAT(staleness.server(), SizeIs(2));
  EXPECT_EQ(staleness.server(1).server(), 1);
  EXPECT_THAT(staleness.server(1).update(), ElementsAre(0, 0, 20, 20));
  EXPECT_THAT(staleness.server(1).clock(), ElementsAre(20, 20));
  EXPECT_DOUBLE_EQ(staleness.server(1).mean_update(), 2.5);
  EXPECT_DOUBLE_EQ(staleness.server(1).mean_clock(), 0.5);
  EXPECT_DOUBLE_EQ(staleness.mean_update(), 2.5);
  EXPECT_DOUBLE_EQ(staleness.mean_clock(), 0.5);
  EXPECT_DOUBLE_EQ(staleness.gap_share(), 0.25);
  EXPECT_DOUBLE_EQ(staleness.expected_mean(), 3 * 0.75);
}

TEST(Staleness, GapShareIsOfSumsAndNeedsBothTimes) {
  const RunRecord run = RunWith(kAsync, [](Files* files) {
    for (Record& record : (*files)[{"server", 0}]) {
      if (!record.has_applied()) continue;
      Applied* applied = record.mutable_applied();
      if (applied->step() <= 10) applied->set_gap_ns(999 * kMs);  // left out
      if (applied->step() == 20) applied->clear_gap_ns();         // nobody read any more
      if (applied->step() == 11) applied->set_cycle_ns(40 * kMs);
    }
  });
  // Server 0: 36 gaps of 1 ms; cycles: 4 of 40 ms, 32 of 4 ms.
  const StalenessResult staleness = Result({run}).staleness();
  EXPECT_DOUBLE_EQ(staleness.server(0).gap_share(), 36.0 / (4 * 40 + 32 * 4));
  EXPECT_DOUBLE_EQ(staleness.server(1).gap_share(), 0.25);
  EXPECT_DOUBLE_EQ(staleness.gap_share(), (36.0 + 40) / (4 * 40 + 32 * 4 + 160));
}

// Workers on a crowded host run apart: once one has ended, the others have one less to fear. The
// law was once off by most of an update there.
TEST(Staleness, TheLawCountsThoseAtWork) {
  const RunRecord run = RunWith(kAsync, [](Files* files) {
    for (const int index : {0, 1}) {
      std::vector<Record>& records = (*files)[{"server", index}];
      // Worker 3 does all its work first, then the others do theirs.
      std::stable_partition(records.begin() + 2, records.end() - 1,
                            [](const Record& record) { return record.applied().worker() == 3; });
    }
  });
  const StalenessResult staleness = Result({run}).staleness();
  // 10 updates beside nobody, 30 beside two others.
  EXPECT_DOUBLE_EQ(staleness.expected_mean(), (10 * 0 + 30 * 2) / 40.0 * 0.75);
}

TEST(Staleness, CountsEveryUpdateOfEveryRunOnceAShard) {
  Shape second = kAsync;
  second.block = 1;
  StalenessResult staleness = Result({synthetic::Run(kAsync), synthetic::Run(second)}).staleness();
  EXPECT_EQ(staleness.applied(), 2 * 4 * 20);
  EXPECT_EQ(staleness.expected_applied(), 2 * 4 * 20);

  const auto drop = [](Files* files) {
    std::vector<Record>& records = (*files)[{"server", 1}];
    records.erase(records.begin() + 2);  // the first update
  };
  staleness = Result({RunWith(kAsync, drop)}).staleness();
  EXPECT_EQ(staleness.applied(), 4 * 20 - 1);
  const auto repeat = [](Files* files) {
    std::vector<Record>& records = (*files)[{"server", 0}];
    records.insert(records.begin() + 2, records[2]);
  };
  staleness = Result({RunWith(kAsync, repeat)}).staleness();
  EXPECT_EQ(staleness.applied(), 4 * 20 + 1);
  const auto silent = [](Files* files) {
    std::vector<Record>& records = (*files)[{"server", 1}];
    records.erase(records.begin() + 2, records.end() - 1);
    records.back().mutable_ended()->set_step(20);
  };
  EXPECT_EQ(Result({RunWith(kAsync, silent)}).staleness().applied(), 0);
}

TEST(Staleness, OnlyAsynchronousWaysHaveIt) {
  EXPECT_FALSE(Result({synthetic::Run({.variant = "ps_sync", .servers = 1})}).has_staleness());
  EXPECT_FALSE(Result({synthetic::Run({.variant = "none"})}).has_staleness());
  EXPECT_FALSE(Result({synthetic::Run({.variant = "ring"})}).has_staleness());
}

TEST(Staleness, ADamagedRecordBoundsTheHistogram) {
  const RunRecord run = RunWith(kAsync, [](Files* files) {
    for (Record& record : (*files)[{"server", 0}]) {
      if (!record.has_applied()) continue;
      record.mutable_applied()->set_update_staleness(int64_t{1} << 60);
      record.mutable_applied()->set_clock_staleness(-5);
    }
  });
  const StalenessResult staleness = Result({run}).staleness();
  EXPECT_THAT(staleness.server(0).update(), SizeIs(10'000));
  EXPECT_THAT(staleness.server(0).clock(), ElementsAre(40));
}

struct Proof {
  const char* name;
  Shape shape;
  double versions;
  double gap;
};
class Synchrony : public ::testing::TestWithParam<Proof> {};

TEST_P(Synchrony, CountsVersionsAndTheStepGap) {
  const VariantResult result = Result({synthetic::Run(GetParam().shape)});
  EXPECT_EQ(result.synchrony().model_versions(), GetParam().versions);
  EXPECT_EQ(result.synchrony().step_gap_max(), GetParam().gap);
}

INSTANTIATE_TEST_SUITE_P(
    All, Synchrony,
    ::testing::Values(Proof{"ring", {.variant = "ring"}, 20, 1},
                      Proof{"ps_sync", {.variant = "ps_sync", .servers = 2}, 20, 1},
                      Proof{"ps_schedule", {.variant = "ps_schedule", .servers = 2}, 20, 1},
                      Proof{"ps_async", {.variant = "ps_async", .servers = 2}, 80, 1},
                      Proof{"none", {.variant = "none"}, 0, 1},
                      Proof{"alone", {.variant = "ring", .workers = 1}, 20, 0}),
    [](const auto& test) { return std::string(test.param.name); });

// Rank 0 takes half a period a step: when it ends step 20, the others have ended step 10.
TEST(Synchrony, AWorkerThatRunsAheadShows) {
  const RunRecord run = RunWith({.variant = "ps_async", .servers = 1}, [](Files* files) {
    ForSteps(files, 0, [](StepDone* step) { step->set_start_ns(step->step() * 5 * kMs); });
  });
  EXPECT_EQ(Result({run}).synchrony().step_gap_max(), 11);
  EXPECT_EQ(Result({run}).synchrony().model_versions(), 80);
}

TEST(Synchrony, StepsThatEndInOneInstantCountTogether) {
  const RunRecord run = RunWith({.variant = "ring", .workers = 2}, [](Files* files) {
    ForSteps(files, 1, [](StepDone* step) { step->set_start_ns(step->start_ns() - kMs); });
  });
  EXPECT_EQ(Result({run}).synchrony().step_gap_max(), 0);
}

TEST(Synchrony, AnUnfinishedRunProvesNothing) {
  const RunRecord run = RunWith({.variant = "ring"}, [](Files* files) {
    (*files)[{"worker", 1}].resize(2 + 6);
  });
  EXPECT_FALSE(Result({run}).has_synchrony());
}

}  // namespace
}  // namespace lockstep
