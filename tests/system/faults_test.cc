// Planned faults on real processes: what each does, that it happens where it was planned, and that
// a rebuilt group ends with the bits of the undisturbed run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/system/fault_run.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Undisturbed& Reference() {
  static Undisturbed reference;
  return reference;
}

struct ReplaceCase {
  std::string name;
  std::string algorithm;
  std::string fault;
};
class ReplaceTest : public testing::TestWithParam<ReplaceCase> {};

TEST_P(ReplaceTest, EndsWithTheUndisturbedRunsBits) {
  const ReplaceCase& test = GetParam();
  const FaultRun run({.algorithm = test.algorithm, .on_loss = "REPLACE", .faults = {test.fault}});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  EXPECT_THAT(run.result().err, HasSubstr("worker 1 is lost ("));
  EXPECT_THAT(run.result().err, HasSubstr("rebuilt with 3 workers in"));
  const std::string& hash = Reference().HashOf(test.algorithm, 3);
  for (int index = 0; index < 3; ++index) {
    EXPECT_EQ(run.FinalHash(index), hash) << "worker " << index;
    const std::vector<Rebuilt> rebuilds = run.Rebuilds(index);
    ASSERT_EQ(rebuilds.size(), 1U);
    EXPECT_EQ(rebuilds[0].epoch(), 2);
    EXPECT_EQ(rebuilds[0].world_size(), 3);
    EXPECT_EQ(rebuilds[0].rank(), index);
    EXPECT_EQ(rebuilds[0].broken_ns() == 0, index == 1) << "worker 1 is the replacement";
  }
  ASSERT_EQ(run.run().runs_size(), 1);
  EXPECT_TRUE(run.run().runs(0).complete());
  EXPECT_EQ(run.run().runs(0).final_hash(), hash);
  EXPECT_EQ(run.run().runs(0).replicas().state(), "identical");
}

std::vector<ReplaceCase> ReplaceCases() {
  const std::string at = "target: \"worker:1\" at { step: 7 } kind: ";
  std::vector<ReplaceCase> cases;
  for (const std::string algorithm : {"RING", "TREE", "HALVING_DOUBLING"}) {
    cases.push_back({algorithm + "_kill", algorithm, at + "KILL"});
    cases.push_back({algorithm + "_in_the_exchange", algorithm, at + "KILL after_bucket: 1"});
    cases.push_back({algorithm + "_restart", algorithm, at + "RESTART"});
  }
  cases.push_back({"RING_first_step", "RING", "target: \"worker:1\" at { step: 1 } kind: KILL"});
  cases.push_back({"RING_last_bucket", "RING",
                   "target: \"worker:1\" at { step: 20 } kind: KILL after_bucket: 3"});
  cases.push_back({"RING_frozen", "RING", at + "FREEZE for: \"20s\""});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Faults, ReplaceTest, testing::ValuesIn(ReplaceCases()),
                         [](const auto& test) { return test.param.name; });

// CASES R60, R33: each with its planned and actual step, in the same order in two runs; detection
// and rebuild times come out of the records.
TEST(FaultsTest, APlanHappensTheSameWayTwice) {
  const FaultRunOptions options = {
      .on_loss = "REPLACE",
      .workers = 4,
      .faults = {"target: \"worker:3\" at { step: 12 } kind: KILL",
                 "target: \"worker:1\" at { step: 4 } kind: FREEZE for: \"100ms\"",
                 "target: \"worker:0\" at { step: 8 } kind: DELAY for: \"50ms\" message { to: 1 }",
                 "target: \"worker:1\" at { step: 15 } kind: RESTART after_bucket: 0"}};
  const FaultRun first(options);
  const FaultRun second(options);
  EXPECT_EQ(first.result().exit_code, 0) << first.result().err;
  EXPECT_THAT(first.Injections(), ElementsAre("FREEZE of fault 1 at step 4, planned 4",
                                              "DELAY of fault 2 at step 8, planned 8",
                                              "KILL of fault 0 at step 12, planned 12",
                                              "RESTART of fault 3 at step 15, planned 15"));
  EXPECT_EQ(second.Injections(), first.Injections());
  EXPECT_EQ(first.FinalHash(2), Reference().HashOf("RING", 4));
  EXPECT_EQ(second.FinalHash(2), first.FinalHash(2));
  int64_t killed_ns = 0;
  for (const Record& record : first.worker(3)) {
    if (record.has_injected()) killed_ns = record.time_ns();
  }
  for (const Record& record : first.worker(0)) {
    if (!record.has_rebuilt() || record.rebuilt().epoch() != 2) continue;
    EXPECT_GT(record.rebuilt().broken_ns(), killed_ns);
    EXPECT_GT(record.time_ns(), record.rebuilt().broken_ns());
  }
}

TEST(FaultsTest, WhatDidNotHappenIsReported) {
  const FaultRun run(
      {.faults = {"target: \"worker:1\" at { step: 9 } kind: KILL",
                  "target: \"worker:0\" at { step: 15 } kind: KILL",
                  "target: \"worker:2\" at { step: 3 } kind: DROP message { to: 0 nth: 5000 }"}});
  EXPECT_EQ(run.result().exit_code, 3);
  EXPECT_THAT(run.result().err, HasSubstr("fault[1], KILL of worker:0 at step 15, did not happen: "
                                          "its last recorded step is 8"));
  EXPECT_THAT(run.result().err, HasSubstr("fault[2], DROP of worker:2 at step 3, did not happen: "
                                          "that step has no such message"));
  EXPECT_THAT(run.result().err, testing::Not(HasSubstr("fault[0]")));
}

// The survivors share the same global batch, unevenly: the mean stays that over its samples, so the
// parameters differ from the undisturbed run's by rounding alone.
TEST(FaultsTest, AShrunkGroupTrainsOnTheSameBatches) {
  const FaultRun whole({.on_loss = "SHRINK", .workers = 6});
  const FaultRun shrunk({.on_loss = "SHRINK",
                         .workers = 6,
                         .faults = {"target: \"worker:2\" at { step: 3 } kind: KILL"}});
  ASSERT_EQ(shrunk.result().exit_code, 0) << shrunk.result().out << shrunk.result().err;
  EXPECT_THAT(shrunk.result().err, HasSubstr("rebuilt with 5 workers in"));
  const std::string hash = shrunk.FinalHash(0);
  for (const int index : {0, 1, 3, 4, 5}) EXPECT_EQ(shrunk.FinalHash(index), hash);
  EXPECT_EQ(shrunk.FinalHash(2), "");
  EXPECT_EQ(shrunk.Rebuilds(5).at(0).rank(), 4);
  const std::vector<float> expected = whole.FinalParameters(0);
  const std::vector<float> actual = shrunk.FinalParameters(0);
  ASSERT_EQ(actual.size(), expected.size());
  float apart = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    apart = std::max(apart, std::fabs(actual[i] - expected[i]));
  }
  EXPECT_LT(apart, 1e-4F);
  EXPECT_FALSE(shrunk.run().runs(0).complete()) << "it is not the run that was asked for";
}

// A worker that was given up and wakes up learns that its place is taken.
TEST(FaultsTest, AFrozenWorkerThatWakesIsRefused) {
  const FaultRun run({.on_loss = "REPLACE",
                      .steps = 3'000,
                      .faults = {absl::StrCat("target: \"worker:1\" at { step: 7 } kind: FREEZE "
                                              "for: \"",
                                              kLeaseMs + 200, "ms\"")}});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  // It may notice its own silence before it reads what the coordinator has sent.
  EXPECT_THAT(run.Log("worker-1.log"),
              testing::ContainsRegex("the run goes on without this process|was silent for"));
  EXPECT_EQ(run.FinalHash(0), run.FinalHash(1));
  EXPECT_EQ(run.FinalHash(0), Reference().HashOf("RING", 3, 3'000));
}

// Losing again and again in one place is an end, not a loop.
TEST(FaultsTest, ALossBeyondRepairFailsWithTheFirstCause) {
  const FaultRun run({.on_loss = "REPLACE",
                      .faults = {"target: \"worker:0\" at { step: 7 } kind: KILL",
                                 "target: \"worker:1\" at { step: 7 } kind: KILL",
                                 "target: \"worker:2\" at { step: 7 } kind: KILL"}});
  EXPECT_FALSE(run.result().timed_out);
  if (run.result().exit_code == 0) {  // one of them was heard of before the others had died
    EXPECT_EQ(run.FinalHash(0), Reference().HashOf("RING", 3));
    return;
  }
  EXPECT_EQ(run.result().exit_code, 3) << run.result().err;
  EXPECT_THAT(run.run().failures(0).message(),
              HasSubstr("not rebuilt: no worker is left that holds the state"));
}

}  // namespace
}  // namespace lockstep
