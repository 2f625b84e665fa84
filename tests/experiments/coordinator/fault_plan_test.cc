#include "base/member/fault_plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class FaultPlanTest : public testing::Test {
 protected:
  FaultPlanTest() : path_(testing::TempDir() + "/fault_plan.rec") {
    auto records = RecordWriter::Create(path_, clock_);
    EXPECT_THAT(records, IsOk());
    records_ = *std::move(records);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(fault { kind: FREEZE target: "worker:1" at { step: 7 } for: "20ms" }
           fault { kind: KILL target: "worker:2" at { step: 7 } }
           fault { kind: KILL target: "worker:1" at { step: 9 } after_bucket: 1 }
           fault { kind: DROP target: "worker:1" at { step: 7 } message { to: 0 } }
           fault { kind: KILL target: "worker:10" at { step: 8 } }
           fault { kind: CRASH_POINT target: "server:0" at { step: 6 } point: "acknowledged" }
           fault { kind: CRASH_POINT target: "server:0" at { step: 8 } point: "restoring" })",
        &experiment_));
  }
  FaultPlan Plan() { return {experiment_, "worker:1", records_.get()}; }
  static std::vector<int> Indices(const std::vector<PlannedFault>& faults) {
    std::vector<int> indices;
    for (const PlannedFault& fault : faults) indices.push_back(fault.index);
    return indices;
  }

  const MonotonicClock clock_;
  const std::string path_;
  std::unique_ptr<RecordWriter> records_;
  Experiment experiment_;
};

TEST_F(FaultPlanTest, TheNextOfAKindIsTheOneOfTheLeastStepThatHasNotStruck) {
  FaultPlan plan = Plan();
  EXPECT_FALSE(plan.TakeNext(IsJoin).has_value());
  ASSERT_TRUE(plan.TakeNext(StrikesMessage).has_value());
  EXPECT_FALSE(plan.TakeNext(StrikesMessage).has_value());
  EXPECT_EQ(plan.TakeNext(StrikesProcess)->index, 0);
  EXPECT_EQ(plan.TakeNext(StrikesProcess)->index, 2);
}

TEST_F(FaultPlanTest, EachIsDueOnceAtItsPoint) {
  FaultPlan plan = Plan();
  EXPECT_THAT(plan.Due(6, StrikesProcess), IsEmpty());
  EXPECT_THAT(Indices(plan.Due(7, StrikesProcess)), ElementsAre(0));
  EXPECT_THAT(plan.Due(7, StrikesProcess), IsEmpty());
  EXPECT_THAT(Indices(plan.Due(7, StrikesMessage)), ElementsAre(3));
  EXPECT_THAT(plan.Due(9, StrikesProcess), IsEmpty());
  EXPECT_THAT(plan.Due(9, StrikesProcess, 0), IsEmpty());
  EXPECT_THAT(Indices(plan.Due(9, StrikesProcess, 1)), ElementsAre(2));
}

TEST_F(FaultPlanTest, AStepThatAPeerMadeIsCaughtUpWith) {
  FaultPlan plan = Plan();
  EXPECT_THAT(Indices(plan.Due(10, StrikesProcess)), ElementsAre(0, 2));
}

// It would kill itself again in the step that killed its predecessor.
TEST_F(FaultPlanTest, AReplacementIsNotStruckAgain) {
  FaultPlan plan = Plan();
  plan.BeginAfter(6);
  EXPECT_THAT(plan.Due(7, StrikesProcess), IsEmpty());
  EXPECT_THAT(Indices(plan.Due(9, StrikesProcess, 1)), ElementsAre(2));
}

// A server's points: the right one, from its step on, once.
TEST_F(FaultPlanTest, ACrashPointIsDueWhereTheProtocolIsThere) {
  FaultPlan plan(experiment_, "server:0", records_.get());
  EXPECT_THAT(plan.DueAt("acknowledged", 5), IsEmpty());
  EXPECT_THAT(plan.DueAt("restoring", 6), IsEmpty());
  EXPECT_THAT(plan.Due(6, StrikesProcess), IsEmpty());
  EXPECT_THAT(Indices(plan.DueAt("acknowledged", 7)), ElementsAre(5));
  EXPECT_THAT(plan.DueAt("acknowledged", 7), IsEmpty());
}

// It may be planned to die where it recovers, but not twice for the same plan.
TEST_F(FaultPlanTest, WhatStruckAPredecessorIsKnownFromItsRecord) {
  FaultPlan plan(experiment_, "server:0", records_.get());
  lockstep::Record struck;
  struck.mutable_injected()->set_fault(5);
  plan.SkipStruck({struck});
  EXPECT_THAT(plan.DueAt("acknowledged", 7), IsEmpty());
  EXPECT_THAT(Indices(plan.DueAt("restoring", 8)), ElementsAre(6));
}

TEST_F(FaultPlanTest, AFreezeIsRecordedFirstAndEndsByItself) {
  FaultPlan plan = Plan();
  const int64_t start_ns = clock_.NowNs();
  for (const PlannedFault& planned : plan.Due(8, StrikesProcess)) plan.Inject(planned, 8);
  EXPECT_GE(clock_.NowNs() - start_ns, 20 * kNsPerMs);
  const auto records = ReadRecords(path_);
  ASSERT_THAT(records, IsOk());
  ASSERT_EQ(records->size(), 1U);
  const Injected& injected = records->at(0).injected();
  EXPECT_EQ(injected.kind(), "FREEZE");
  EXPECT_EQ(injected.fault(), 0);
  EXPECT_EQ(injected.step(), 8);
  EXPECT_EQ(injected.planned_step(), 7);
}

TEST(DurationMsTest, ReadsWhatPeopleWrite) {
  EXPECT_EQ(DurationMs("500ms"), 500);
  EXPECT_EQ(DurationMs("2s"), 2'000);
  EXPECT_EQ(DurationMs("1.5s"), 1'500);
  for (const char* bad : {"", "soon", "5", "-1s", "0s", "inf"}) {
    EXPECT_EQ(DurationMs(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace lockstep
