// Properties that every generator promises: it verifies at its declared slots and stands still
// below those it needs, tile after tile too, and moves the bytes of its formula in messages that
// depend on each other as deep as it says. One source for two tiers: full has the rest of n <= 33.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "allreduce/schedule/verify.h"
#include "tests/allreduce/schedule_cases.h"
#include "tests/allreduce/schedule_walk.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

// The largest world of the quick tier is slow to verify.
std::vector<int32_t> ChannelsFor(int32_t n) {
  if (n > 16 && !kFullTier) return {1};
  return {1, 3};
}

void AddAllReduces(int32_t n, std::vector<ScheduleCase>* cases) {
  for (const int32_t channels : ChannelsFor(n)) {
    cases->push_back(RingCase({n, channels}));
    cases->push_back(NaiveCase({n, channels}));
    cases->push_back(StarCase({n, channels}));
    cases->push_back(TreeCase({n, channels, channels == 1 ? 8 : 1}));
    cases->push_back(DoubleTreeCase({n, channels, channels == 1 ? 8 : 1}));
    cases->push_back(RecursiveDoublingCase({n, channels}));
    cases->push_back(HalvingDoublingCase({n, channels}));
    cases->push_back(DirectCase({n, channels}));
  }
  cases->push_back(TreeCase({n, 2, 5}));
  cases->push_back(DoubleTreeCase({n, 2, 5}));
  for (int32_t group = 1; group <= n; ++group) {
    if (n % group == 0) cases->push_back(HierarchicalCase({n, group, group == 2 ? 3 : 1}));
  }
}

void AddPsExchanges(int32_t n, std::vector<ScheduleCase>* cases) {
  constexpr int32_t kEveryServers = kFullTier ? 16 : 8;  // up to so many workers
  cases->push_back(SplitCase({n, 0, 1}));
  for (int32_t servers = 1; servers <= n; ++servers) {
    const bool few = servers <= 3 || servers == n;
    if (!few && n > kEveryServers) continue;
    cases->push_back(SpareCase({n, servers, 1}));
    cases->push_back(ColocatedCase({n, servers, 1}));
    // Without a common divisor n^2 chunks and more.
    if (n <= 16 || servers == n) cases->push_back(SplitCase({n, servers, 1}));
  }
  cases->push_back(SpareCase({n, 2, 3}));
  if (n < 2) return;
  cases->push_back(ColocatedCase({n, 2, 3}));
  if (n <= 16 || kFullTier) cases->push_back(SplitCase({n, 2, 3}));
}

void AddOthers(int32_t n, std::vector<ScheduleCase>* cases) {
  for (const Collective half : {Collective::kReduceScatter, Collective::kAllGather}) {
    for (const int32_t channels : ChannelsFor(n)) {
      cases->push_back(RingCase({n, channels, half}));
      cases->push_back(DirectCase({n, channels, half}));
    }
  }
  for (const TreeForm form : {TreeForm::kHeap, TreeForm::kChain, TreeForm::kFan}) {
    for (const int32_t root : std::set<int32_t>{0, n / 2, n - 1}) {
      for (const Collective collective : {Collective::kReduce, Collective::kBroadcast}) {
        cases->push_back(RootedCase({n, root, 4, root == 0 ? 1 : 3, form, collective}));
      }
    }
  }
  cases->push_back(BarrierCase({n}));
}

std::vector<ScheduleCase> Cases() {
  const std::set<int32_t> quick = {1, 2, 3, 4, 5, 7, 8, 13, 33};
  std::vector<ScheduleCase> cases;
  for (int32_t n = 1; n <= 33; ++n) {
    if (quick.contains(n) == kFullTier) continue;
    AddAllReduces(n, &cases);
    AddPsExchanges(n, &cases);
    AddOthers(n, &cases);
  }
  return cases;
}

class EveryScheduleTest : public testing::TestWithParam<ScheduleCase> {
 protected:
  static Goal GoalOfCase(const Schedule& schedule) {
    return *GoalOf(GetParam().collective, schedule, GetParam().root);
  }
};

TEST_P(EveryScheduleTest, VerifiesFromTheSlotsItNeedsAndStandsStillBelow) {
  Schedule schedule = GetParam().make();
  EXPECT_GE(schedule.slots, GetParam().slots_needed);
  for (const int32_t slots : {1, 2, 8}) {
    schedule.slots = slots;
    const VerifyReport report = Verify(schedule, GoalOfCase(schedule));
    if (slots < GetParam().slots_needed) {
      EXPECT_TRUE(report.Has(Fault::kDeadlock)) << "slots " << slots;
    } else {
      EXPECT_THAT(report.ToStatus(), IsOk()) << "slots " << slots;
    }
  }
}

TEST_P(EveryScheduleTest, VerifiesTileAfterTile) {
  Schedule tiled = Tiled(GetParam().make(), 3);
  tiled.slots = GetParam().slots_needed;
  EXPECT_THAT(Verify(tiled, GoalOfCase(tiled)).ToStatus(), IsOk());
}

TEST_P(EveryScheduleTest, EveryRankSendsAndReceivesTheFormulasShare) {
  const Schedule schedule = GetParam().make();
  EXPECT_EQ(schedule.chunks, GetParam().chunks);
  for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
    EXPECT_EQ(ShareOf(schedule.ranks[static_cast<size_t>(rank)]), GetParam().share(rank))
        << "rank " << rank;
  }
}

TEST_P(EveryScheduleTest, MessagesDependOnEachOtherAsDeepAsTheHeaderSays) {
  EXPECT_EQ(DepthOf(GetParam().make()), GetParam().depth);
}

std::string Name(const testing::TestParamInfo<ScheduleCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, EveryScheduleTest, testing::ValuesIn(Cases()), Name);

}  // namespace
}  // namespace lockstep
