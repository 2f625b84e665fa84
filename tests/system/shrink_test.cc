// A hierarchy without group_size takes its groups from the number of workers, so that the survivors
// of a loss form others: 6 workers in groups of 3 or 2, the 5 that are left by themselves.
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

using testing::HasSubstr;

TEST(ShrinkTest, AHierarchyWithoutGroupSizeGoesOnWithTheSurvivors) {
  constexpr int kWorkers = 6;
  constexpr int kLost = 4;
  const FaultRun whole({.algorithm = "HIERARCHICAL", .on_loss = "SHRINK", .workers = kWorkers});
  const FaultRun shrunk(
      {.algorithm = "HIERARCHICAL",
       .on_loss = "SHRINK",
       .workers = kWorkers,
       .faults = {absl::StrCat("target: \"worker:", kLost, "\" at { step: 5 } kind: KILL")}});
  ASSERT_EQ(shrunk.result().exit_code, 0) << shrunk.result().out << shrunk.result().err;
  EXPECT_THAT(shrunk.result().err, HasSubstr("rebuilt with 5 workers in"));
  const std::string hash = shrunk.FinalHash(0);
  EXPECT_NE(hash, "");
  for (int index = 0; index < kWorkers; ++index) {
    EXPECT_EQ(shrunk.FinalHash(index), index == kLost ? "" : hash) << "worker " << index;
  }
  const std::vector<float> expected = whole.FinalParameters(0);
  const std::vector<float> actual = shrunk.FinalParameters(0);
  ASSERT_EQ(actual.size(), expected.size());
  float apart = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    apart = std::max(apart, std::fabs(actual[i] - expected[i]));
  }
  EXPECT_LT(apart, 1e-4F) << "the same batches, other orders of addition";
  // The headline counts those that are left.
  EXPECT_THAT(shrunk.result().out, testing::Not(HasSubstr("6 identical replicas")));
}

}  // namespace
}  // namespace lockstep
