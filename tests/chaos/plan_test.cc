#include "experiments/simulate/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

TEST(PlanTest, OneSeedMakesOnePlan) {
  const PlanOptions options;
  EXPECT_EQ(ToString(DrawPlan(options, 7)), ToString(DrawPlan(options, 7)));
  EXPECT_NE(ToString(DrawPlan(options, 7)), ToString(DrawPlan(options, 8)));
}

TEST(PlanTest, EveryTroubleAndCrashPointIsDrawn) {
  std::set<Trouble> troubles;
  std::set<CrashPoint> points;
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    for (const Disturbance& each : DrawPlan({}, seed)) {
      troubles.insert(each.trouble);
      if (each.trouble == Trouble::kCrashPoint) points.insert(each.point);
    }
  }
  EXPECT_EQ(troubles.size(), static_cast<size_t>(Trouble::kWallJump) + 1);
  EXPECT_EQ(points.size(), kCrashPoints.size());
}

TEST(PlanTest, TextSaysWhatHappensToWhomAndWhen) {
  using Role = TroubleTarget::Role;
  const Disturbance cut{.trouble = Trouble::kCut,
                        .target = {Role::kWorker, 0},
                        .peer = {Role::kServer, 2},
                        .at_ms = 20,
                        .after_loss = 1,
                        .for_ms = 100};
  EXPECT_EQ(cut.ToString(), "at 20 ms after group 1 is dead: cut worker:0 -> server:2 for 100 ms");
  const Disturbance crash{.trouble = Trouble::kCrashPoint,
                          .target = {Role::kServer, 1},
                          .point = CrashPoint::kAppliedNotReplicated,
                          .step = 4};
  EXPECT_EQ(crash.ToString(), "from step 4 on: crash server:1 at applied_not_replicated");
}

TEST(PlanTest, ShrinkingKeepsWhatFailsAndNothingElse) {
  Plan plan(5);
  for (size_t i = 0; i < plan.size(); ++i) {
    plan[i].target.index = static_cast<int32_t>(i);
    plan[i].at_ms = 400;
  }
  plan[3].trouble = Trouble::kFreeze;
  plan[3].for_ms = 900;
  // It fails where number 3 is there and lasts for 333 ms or more.
  int runs = 0;
  const auto fails = [&runs](const Plan& each) {
    ++runs;
    return std::any_of(each.begin(), each.end(),
                       [](const Disturbance& d) { return d.target.index == 3 && d.for_ms >= 333; });
  };
  const Plan shrunk = Shrink(plan, fails);
  ASSERT_EQ(shrunk.size(), 1U);
  EXPECT_EQ(shrunk[0].target.index, 3);
  EXPECT_EQ(shrunk[0].at_ms, 0);
  EXPECT_GE(shrunk[0].for_ms, 333);
  EXPECT_LE(shrunk[0].for_ms, 340);
  EXPECT_LE(runs, 200);
}

TEST(PlanTest, OnlySilenceBeyondTheLeaseExcusesALoss) {
  const Disturbance jump{.trouble = Trouble::kWallJump, .amount = 1e6};
  const Disturbance pause{.trouble = Trouble::kFreeze, .for_ms = 150};
  const Disturbance kill{.trouble = Trouble::kKill};
  EXPECT_FALSE(MayEndAGroup({jump, pause}, 300));
  EXPECT_TRUE(MayEndAGroup({pause, pause}, 300));
  EXPECT_TRUE(MayEndAGroup({kill}, 300));
}

}  // namespace
}  // namespace lockstep
