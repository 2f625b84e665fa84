// The rebuild of a group, from thousands of seeds in one thread: rebuild_sim.h. A failing seed is
// named; --gtest_filter and the seed in the message replay it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/experiments/coordinator/rebuild_sim.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using sim::SimOptions;
using sim::SimResult;
using sim::Simulate;

struct Case {
  std::string name;
  SimOptions options;
  bool must_complete = true;  // else a clear failure will do
};

constexpr uint64_t kSeeds = 150;  // of each case

std::ostream& operator<<(std::ostream& out, const Case& test) { return out << test.name; }

class RebuildTest : public testing::TestWithParam<Case> {};

TEST_P(RebuildTest, EverySeedEndsWithTheRightStateOrAClearFailure) {
  const Case& test = GetParam();
  int completed = 0;
  int rebuilt = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimOptions options = test.options;
    options.seed = seed;
    const SimResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    ASSERT_TRUE(result.ended) << "somebody waits after " << result.elapsed_ms << " ms";
    ASSERT_LT(result.elapsed_ms, 30'000);
    rebuilt += result.epochs > 1 ? 1 : 0;
    if (!result.outcome.ok()) {
      ASSERT_FALSE(test.must_complete) << result.outcome;
      ASSERT_FALSE(result.failures.empty());
      ASSERT_NE(result.outcome.message(), "");
      continue;
    }
    ++completed;
    ASSERT_EQ(result.finals.size(), 1U) << "workers of a complete run hold different states";
    if (options.on_loss == AllReduceSync::REPLACE) {
      ASSERT_EQ(*result.finals.begin(), sim::Undisturbed(options.workers, options.steps));
    }
  }
  // A simulation in which nothing happens would prove nothing.
  EXPECT_GE(rebuilt, static_cast<int>(kSeeds) / 4);
  EXPECT_GE(completed, static_cast<int>(kSeeds) / 4);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const AllReduceSync::OnLoss on_loss : {AllReduceSync::SHRINK, AllReduceSync::REPLACE}) {
    const std::string policy = AllReduceSync::OnLoss_Name(on_loss);
    const auto add = [&](const std::string& name, SimOptions options, bool must_complete) {
      options.on_loss = on_loss;
      cases.push_back({policy + "_" + name, options, must_complete});
    };
    add("kill", {.kills = 1}, true);
    add("two_kills_of_four", {.workers = 4, .kills = 2}, true);
    add("kills_during_rebuild", {.workers = 4, .kills = 3, .during_rebuild = true}, false);
    add("long_freeze", {.long_freezes = 1}, true);
    add("freezes_during_rebuild",
        {.workers = 4, .kills = 1, .short_freezes = 1, .long_freezes = 1, .during_rebuild = true},
        true);
    add("lost_message", {.lost_messages = 1}, true);
    add("everything",
        {.workers = 5,
         .kills = 2,
         .short_freezes = 1,
         .long_freezes = 2,
         .lost_messages = 2,
         .during_rebuild = true},
        false);
    add("two_workers", {.workers = 2, .kills = 1}, true);
    // Without replacements nobody would be left.
    if (on_loss == AllReduceSync::REPLACE) {
      add("two_workers_two_kills", {.workers = 2, .kills = 2, .during_rebuild = true}, false);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Rebuild, RebuildTest, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
