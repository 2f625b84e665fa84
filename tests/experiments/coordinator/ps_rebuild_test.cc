// The recovery of a parameter-server cluster, from thousands of seeds in one thread: ps_sim.h. A
// failing seed is named; --gtest_filter and the seed in the message replay it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/allreduce/tier.h"
#include "tests/experiments/coordinator/ps_sim.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using sim::PsSimOptions;
using sim::PsSimResult;
using sim::SimulatePs;
using testing::HasSubstr;

struct Case {
  std::string name;
  PsSimOptions options;
  bool must_complete = true;  // else it may stop, and says which shard is lost
};

constexpr uint64_t kSeeds = kFullTier ? 400 : 40;  // of each case

std::ostream& operator<<(std::ostream& out, const Case& test) { return out << test.name; }

class PsRebuildTest : public testing::TestWithParam<Case> {};

TEST_P(PsRebuildTest, EverySeedEndsWithTheUndisturbedStateOrSaysWhatIsLost) {
  const Case& test = GetParam();
  int completed = 0;
  int rebuilt = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PsSimOptions options = test.options;
    options.seed = seed;
    const PsSimResult result = SimulatePs(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    ASSERT_TRUE(result.ended) << "somebody waits after " << result.elapsed_ms << " ms";
    ASSERT_LT(result.elapsed_ms, 30'000);
    rebuilt += result.epochs > 1 ? 1 : 0;
    EXPECT_FALSE(result.restored && options.policy == Ps::CHAIN);
    if (!result.outcome.ok()) {
      ASSERT_FALSE(test.must_complete) << result.outcome << "\n"
                                       << testing::PrintToString(result.lines);
      ASSERT_THAT(std::string(result.outcome.message()),
                  testing::AnyOf(HasSubstr(" lost: server"), HasSubstr("no snapshot is left"),
                                 HasSubstr("every replacement of server")));
      continue;
    }
    ++completed;
    ASSERT_THAT(result.finals, testing::ElementsAre(sim::UndisturbedShard(options.steps)));
  }
  // A simulation in which nothing happens would prove nothing.
  EXPECT_GE(rebuilt, static_cast<int>(kSeeds) / 2);
  EXPECT_GE(completed, static_cast<int>(kSeeds) / 8);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const PsSimOptions& options, bool must_complete) {
    cases.push_back({name, options, must_complete});
  };
  for (const Ps::Policy policy : {Ps::CHAIN, Ps::SNAPSHOT}) {
    const std::string prefix = Ps::Policy_Name(policy) + "_";
    add(prefix + "kill", {.policy = policy, .server_kills = 1}, true);
    add(prefix + "rolling_restart", {.policy = policy, .steps = 60, .in_turn = true}, true);
    add(prefix + "long_freeze", {.policy = policy, .long_freezes = 1}, true);
    add(prefix + "worker_kill", {.policy = policy, .worker_kills = 1}, true);
    add(prefix + "server_and_worker",
        {.policy = policy, .server_kills = 1, .worker_kills = 1, .during_rebuild = true}, true);
    add(prefix + "shrink_and_kill",
        {.policy = policy,
         .on_worker_loss = Ps::SHRINK,
         .workers = 3,
         .server_kills = 1,
         .worker_kills = 1},
        true);
    add(prefix + "kills_during_recovery",
        {.policy = policy, .server_kills = 3, .during_rebuild = true}, false);
    add(prefix + "everything",
        {.policy = policy,
         .workers = 3,
         .servers = 4,
         .server_kills = 2,
         .worker_kills = 2,
         .long_freezes = 1,
         .during_rebuild = true},
        false);
  }
  add("CHAIN_two_at_once_of_three_copies",
      {.replicas = 2, .server_kills = 2, .during_rebuild = true}, true);
  add("CHAIN_three_kills_of_three_copies",
      {.replicas = 2, .servers = 5, .server_kills = 3, .during_rebuild = true}, false);
  add("CHAIN_two_servers", {.servers = 2, .server_kills = 1}, true);
  add("SNAPSHOT_damaged",
      {.policy = Ps::SNAPSHOT, .steps = 60, .server_kills = 1, .damaged_snapshot = true}, false);
  add("NONE_worker_kill", {.policy = Ps::NONE, .worker_kills = 1}, true);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(PsRebuild, PsRebuildTest, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
