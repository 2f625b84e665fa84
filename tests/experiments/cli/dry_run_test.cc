#include "experiments/cli/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/spec/spec.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string Plan(const std::vector<std::string>& set, const DryRun& dry_run) {
  const LoadedSpec loaded = LoadSpec(*FindSpec("quickstart"), {.set = set});
  EXPECT_THAT(loaded.status(), IsOk());
  const auto plan = DescribePlan(loaded.experiment, dry_run);
  EXPECT_THAT(plan, IsOk());
  return plan.value_or("");
}

TEST(DryRunTest, ProcessesPortsBytesRunsTimeAndPlace) {
  const std::string plan = Plan({}, {.out = "", .listen = {"127.0.0.1", 0}, .cores = 2});
  EXPECT_THAT(plan, HasSubstr("quickstart: 8 variants, 3 blocks, 24 runs of 120 steps"));
  // S = 340,008; n = 4, s = 2. Columns: workers, servers, processes, ports.
  for (const char* row :
       {"none +4 +0 +4 +5 +0\n",
        "ps_sync +4 +2 +6 +7 +340,008 = S; each server 680,016 = n S / s\n",
        "ps_async +4 +2 +6 +7 +340,008 = S; each server 680,016",
        "naive +4 +0 +4 +5 +1,020,024 = .n-1. S\n", "ring +4 +0 +4 +5 +510,012 = 2.n-1./n S\n",
        "tree +4 +0 +4 +5 +510,012 = 2.n-1./n S\n",
        "ps_schedule +4 +2 +6 +7 +340,008 = S; each server 680,016"}) {
    EXPECT_THAT(plan, ContainsRegex(row));
  }
  EXPECT_THAT(plan, HasSubstr("S = 340,008 bytes, 85,002 parameters in f32"));
  EXPECT_THAT(plan, HasSubstr("at most 6 at once, on 2 cores"));
  EXPECT_THAT(plan, HasSubstr("at most 7 at once, the coordinator's on 127.0.0.1:0 (the system"));
  EXPECT_THAT(plan, ContainsRegex("Time: [0-9]+ s to [0-9]+ (s|min)\\. Not measured"));
  EXPECT_THAT(plan, HasSubstr("runs/<UTC time>-quickstart. Nothing was started"));
}

TEST(DryRunTest, ASweepHasARowForEverySize) {
  const std::string plan = Plan({"workers=[2, 4]"}, {.out = "here", .listen = {"h", 7000}});
  EXPECT_THAT(plan, HasSubstr("48 runs"));
  EXPECT_THAT(plan, ContainsRegex("ring-n2 +2 +0 +2 +3 +340,008 = 2.n-1./n S\n"));
  EXPECT_THAT(plan, ContainsRegex("ring-n4 +4 +0 +4 +5 +510,012 = 2.n-1./n S\n"));
  EXPECT_THAT(plan, HasSubstr("the coordinator's on h:7000."));
  EXPECT_THAT(plan, HasSubstr("Results would go to here."));
}

TEST(DryRunTest, WarnsOfAServerThatHoldsTooMuch) {
  const std::vector<std::string> hot = {"model.mlp.layers=[64, 4096, 10]"};
  EXPECT_THAT(Plan(hot, {}), Not(HasSubstr("Warning")));
  std::vector<std::string> in_turn = hot;
  in_turn.push_back("variant[1].ps.placement=IN_TURN");
  const std::string plan = Plan(in_turn, {});
  EXPECT_THAT(plan, HasSubstr("Warning: ps_sync, placed in turn: servers hold 1.21 and 0.0164 MB, "
                              "largest over mean 1.97; linear0.weight has 85 % of the bytes, on "
                              "server 0; nearly idle: server 1; placement SPLIT would"));
}

TEST(DryRunTest, CountsALinkOfAHost) {
  const std::string plan = Plan({"variant[1].ps.hosts=COLOCATED"}, {});
  EXPECT_THAT(plan,
              ContainsRegex("ps_sync +4 +2 +6 +7 +340,008 = S; each server 680,016 = n S / s; "
                            "busiest link 6[0-9]{2},[0-9]{3} = .*n-2.* S"));
}

TEST(DryRunTest, ExactCollectivesSendIntegers) {
  const std::string plan = Plan({"reduction_order=EXACT"}, {});
  EXPECT_THAT(plan, ContainsRegex("ps_sync +4 +2 +6 +7 +340,008 = S;"));
  EXPECT_THAT(plan, ContainsRegex("ring +4 +0 +4 +5 +1,020,522 = "));
}

}  // namespace
}  // namespace lockstep
