// What single generators promise beyond schedule_test.cc, and what they refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "allreduce/schedule/ping_pong.h"
#include "allreduce/schedule/verify.h"
#include "tests/allreduce/schedule_cases.h"
#include "tests/allreduce/schedule_walk.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

// A fused move wants a message and a free slot at once: one slot is not enough for a cycle of them.
TEST(RingTest, OneSlotIsADeadlockWithItsCycleNamed) {
  Schedule ring = *MakeRing({5, 1});
  ring.slots = 1;
  EXPECT_THAT(Verify(ring, AllReduceGoal(ring)).ToStatus(),
              StatusIs(StatusCode::kFailedPrecondition,
                       "deadlock: rank 0 lane 0 move 1: cycle with 1 slots: "
                       "rank 0 lane 0 move 1 waits for a free slot to rank 1"));
  EXPECT_THAT(Verify(ring, AllReduceGoal(ring)).ToStatus(),
              StatusIs(StatusCode::kFailedPrecondition, "-> back to rank 0 lane 0 move 1"));
}

TEST(NaiveTest, EveryRankStartsWithThePeerAfterItself) {
  for (int32_t rank = 0; rank < 5; ++rank) {
    const std::vector<Lane> lanes = NaiveLanes({5, 2}, rank);
    EXPECT_EQ(lanes[0].moves[0].send_to, (rank + 1) % 5);
    EXPECT_EQ(lanes[1].moves[0].send_to, (rank + 1) % 5);
  }
}

// Lanes: what a rank receives, then what it sends.
TEST(PsExchangeTest, WorkersStartAtDifferentServersAndServersAtDifferentWorkers) {
  for (int32_t worker = 0; worker < 5; ++worker) {
    EXPECT_EQ(PsExchangeLanes({5, 3, 2}, worker)[2].moves[0].send_to, 5 + worker % 3);
  }
  for (int32_t server = 0; server < 3; ++server) {
    EXPECT_EQ(PsExchangeLanes({5, 3, 2}, 5 + server)[2].moves[0].send_to, server);
  }
}

TEST(PsExchangeTest, AServerTouchesItsOwnChunksAlone) {
  for (int32_t server = 0; server < 3; ++server) {
    for (const Lane& lane : PsExchangeLanes({5, 3, 2}, 5 + server)) {
      for (const Move& move : lane.moves) EXPECT_EQ(std::max(move.in, move.out) % 3, server);
    }
  }
}

// THEORY C.3 for n = 8, k = 4: the busiest link carries 1.273 S; and the ends of the range.
TEST(PsExchangeTest, SplitLoadsAllLinksAlikeAndLessThanEitherWay) {
  const Schedule split = *MakePsExchange({8, 4, 1, Placement::kSplit});
  for (const auto& lanes : split.ranks) {
    const double share = static_cast<double>(ShareOf(lanes).sent) / split.chunks;
    EXPECT_NEAR(share, 1.273, 0.001);
  }
  EXPECT_EQ(MakePsExchange({5, 0, 1, Placement::kSplit})->ranks, MakeDirect({5, 1})->ranks);
  EXPECT_EQ(MakePsExchange({5, 5, 1, Placement::kSplit})->ranks, MakePsExchange({5, 5, 1})->ranks);
  EXPECT_EQ(MakePsExchange({5, 5, 1, Placement::kColocated})->ranks, MakeDirect({5, 1})->ranks);
}

// Neither waits for the other: servers on even link channels, workers among each other on odd ones.
TEST(PsExchangeTest, SplitHasLanesOfTheirOwnForServersAndForWorkers) {
  const Schedule split = *MakePsExchange({5, 2, 3, Placement::kSplit});
  for (size_t rank = 0; rank < split.ranks.size(); ++rank) {
    EXPECT_EQ(split.ranks[rank].size(), rank < 5 ? 12U : 6U) << "rank " << rank;
    for (const Lane& lane : split.ranks[rank]) {
      for (const Move& move : lane.moves) {
        const bool served = rank >= 5 || std::max(move.recv_from, move.send_to) >= 5;
        EXPECT_EQ(lane.channel % 2, served ? 0 : 1) << "rank " << rank;
      }
    }
  }
}

TEST(TreeTest, NoRankSendsMoreThanThreeTimesItsInput) {
  const Schedule tree = *MakeTree({33, 1, 8});
  for (const auto& lanes : tree.ranks) EXPECT_LE(ShareOf(lanes).sent, 3 * 8);
}

bool IsInner(const std::vector<Lane>& lanes, int32_t channel) {
  const auto is_inner = [&](const Lane& lane) {
    if (lane.channel != channel) return false;
    std::set<int32_t> peers;
    for (const Move& move : lane.moves) peers.insert({move.recv_from, move.send_to});
    peers.erase(kNone);
    return peers.size() > 1;  // a leaf knows its parent alone
  };
  return std::any_of(lanes.begin(), lanes.end(), is_inner);
}

// With 2 ranks a root has one peer, as a leaf has.
TEST(DoubleTreeTest, NoRankIsInnerInBothTreesAndNoneSendsMoreThanTwiceItsInput) {
  for (int32_t n = 3; n <= 70; ++n) {
    const Schedule trees = *MakeDoubleTree({n, 1, 4});
    int32_t inner = 0;
    for (const auto& lanes : trees.ranks) {
      const int32_t trees_inside = (IsInner(lanes, 0) ? 1 : 0) + (IsInner(lanes, 1) ? 1 : 0);
      EXPECT_LE(trees_inside, 1) << "n " << n;
      EXPECT_LE(ShareOf(lanes).sent, 2 * trees.chunks) << "n " << n;
      inner += trees_inside;
    }
    EXPECT_GE(inner, n - 3) << "n " << n;  // roots of one child and the odd rank look like leaves
  }
}

TEST(TreePiecesTest, EveryFormIsOneTree) {
  for (const TreeForm form :
       {TreeForm::kHeap, TreeForm::kChain, TreeForm::kFan, TreeForm::kHalves}) {
    for (int32_t n = 1; n <= 70; ++n) {
      int32_t roots = 0;
      int32_t children = 0;
      for (int32_t position = 0; position < n; ++position) {
        const TreePlace place = PlaceIn(form, position, n);
        roots += place.parent == kNone ? 1 : 0;
        children += static_cast<int32_t>(place.children.size());
        for (const int32_t child : place.children) {
          EXPECT_EQ(PlaceIn(form, child, n).parent, position) << "n " << n << " child " << child;
        }
      }
      EXPECT_EQ(roots, 1) << "n " << n;
      EXPECT_EQ(children, n - 1) << "n " << n;  // with the heights of schedule_test.cc: no cycle
    }
  }
}

TEST(HalvingDoublingTest, SendsRangesInTwoLogNMessages) {
  const std::vector<Lane> lanes = HalvingDoublingLanes({16384, 1}, 12345);
  EXPECT_EQ(MessagesSentBy(lanes), 2 * 14);
  EXPECT_EQ(lanes[0].moves[0].count, 8192);
  EXPECT_EQ(ShareOf(lanes).sent, 2 * 16383);
}

// What a simulator of large worlds asks for: the cost of one rank is that of its own moves.
TEST(HalvingDoublingTest, ManyRanksAreMadeOneByOne) {
  int64_t messages = 0;
  for (int32_t rank = 0; rank < 16384; ++rank) {
    messages += MessagesSentBy(HalvingDoublingLanes({16384, 1}, rank));
  }
  EXPECT_EQ(messages, int64_t{16384} * 28);
}

TEST(HierarchicalTest, TheNaturalGroupIsTheDivisorNearestTheRoot) {
  for (const auto& [n, g] : std::vector<std::pair<int32_t, int32_t>>{
           {1, 1}, {2, 1}, {4, 2}, {6, 2}, {7, 1}, {12, 3}, {16, 4}, {36, 6}, {4096, 64}}) {
    EXPECT_EQ(NaturalGroupSize(n), g) << n;
  }
}

TEST(HierarchicalTest, OneGroupOrGroupsOfOneAreRings) {
  EXPECT_EQ(MakeHierarchical({5, 1, 2})->ranks, MakeRing({5, 2})->ranks);
  const Schedule one_group = *MakeHierarchical({5, 5, 1});
  for (const auto& lanes : one_group.ranks) EXPECT_EQ(MessagesSentBy(lanes), 8);
}

// Data leaves a group only as shards: (m-1)/m S/g each way instead of S.
TEST(HierarchicalTest, OnlyShardsLeaveAGroup) {
  const Schedule groups = *MakeHierarchical({12, 4, 1});
  for (int32_t rank = 0; rank < 12; ++rank) {
    int64_t beyond = 0;
    for (const Move& move : groups.ranks[static_cast<size_t>(rank)][0].moves) {
      if (move.send_to != kNone && move.send_to / 4 != rank / 4) beyond += move.count;
    }
    EXPECT_EQ(beyond, 2 * (3 - 1)) << "rank " << rank;  // of 12 chunks
  }
}

TEST(BarrierTest, TakesAsFewRoundsAsTelephonesAllow) {
  for (const auto& [n, messages] :
       std::vector<std::pair<int32_t, int64_t>>{{1, 0}, {2, 1}, {3, 2}, {8, 3}, {9, 4}, {33, 6}}) {
    for (int32_t rank = 0; rank < n; ++rank) {
      EXPECT_EQ(MessagesSentBy(BarrierLanes({n}, rank)), messages) << n;
    }
  }
}

TEST(ScheduleErrors, NameWhatTheGeneratorWasGiven) {
  const auto refused = [](const char* what) {
    return StatusIs(StatusCode::kInvalidArgument, what);
  };
  EXPECT_THAT(MakeRing({0, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeRing({2, 0}), refused("channels 0"));
  EXPECT_THAT(MakeRing({2, 1, Collective::kReduce}), refused("ring: no reduce; there is"));
  EXPECT_THAT(MakeNaive({0, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeNaive({2, 0}), refused("channels 0"));
  EXPECT_THAT(MakeNaive({2, 129}), refused("channels 129"));
  EXPECT_THAT(MakeTree({0, 1, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeTree({2, 129, 1}), refused("channels 129"));
  EXPECT_THAT(MakeTree({2, 1, 0}), refused("0 chunks per channel"));
  EXPECT_THAT(MakeStar({0, 1}), refused("star: world_size 0"));
  EXPECT_THAT(MakeDoubleTree({2, 65, 1}), refused("channels 65"));
  EXPECT_THAT(MakeDoubleTree({2, 1, 0}), refused("0 chunks per channel"));
  EXPECT_THAT(MakeRecursiveDoubling({2, 0}), refused("channels 0"));
  EXPECT_THAT(MakeHalvingDoubling({0, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeDirect({2, 1, Collective::kBarrier}), refused("direct: no barrier"));
  EXPECT_THAT(MakeHierarchical({6, 4, 1}), refused("group_size 4 does not divide world_size 6"));
  EXPECT_THAT(MakeHierarchical({6, 0, 1}), refused("group_size 0"));
  EXPECT_THAT(MakePsExchange({0, 1, 1}), refused("workers 0"));
  EXPECT_THAT(MakePsExchange({1, 0, 1}), refused("servers 0"));
  EXPECT_THAT(MakePsExchange({1, -1, 1, Placement::kSplit}), refused("servers -1"));
  EXPECT_THAT(MakePsExchange({1, 1, 129}), refused("channels 129"));
  EXPECT_THAT(MakePsExchange({2, 1, 65, Placement::kSplit}), refused("channels at most 64"));
  EXPECT_THAT(MakePsExchange({2, 3, 1, Placement::kColocated}),
              refused("servers 3 exceed workers 2"));
  EXPECT_THAT(MakePsExchange({2, 3, 1, Placement::kSplit}), refused("the placement is split"));
  EXPECT_THAT(MakePingPong({1}), refused("world_size 1"));
  EXPECT_THAT(MakeRooted({2, -1, 1, 1, TreeForm::kHeap, Collective::kReduce}),
              refused("reduce: root -1 is no rank of 0..1"));
  EXPECT_THAT(MakeRooted({0, 0, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeRooted({2, 2, 1}), refused("broadcast: root 2"));
  EXPECT_THAT(MakeRooted({2, 0, 0}), refused("0 chunks per channel"));
  EXPECT_THAT(MakeRooted({2, 0, 1, 1, TreeForm::kHeap, Collective::kAllGather}),
              refused("all_gather: has no root"));
  EXPECT_THAT(MakeBarrier({0}), refused("barrier: world_size 0"));
}

TEST(ScheduleErrors, WhatDoesNotFitIsRefusedWithNeedAndLimit) {
  const auto too_big = [](const char* what) {
    return StatusIs(StatusCode::kResourceExhausted, what);
  };
  EXPECT_THAT(HalvingDoublingShape({16385, 1}), IsOk());
  EXPECT_THAT(HalvingDoublingShape({32769, 1}), too_big("needs messages of 32768 chunks, a move"));
  EXPECT_THAT(HalvingDoublingShape({65536, 1}), too_big("counts at most 32767"));
  EXPECT_THAT(HierarchicalShape({65536, 1, 1}), too_big("messages of 65536 chunks"));
  EXPECT_THAT(RingShape({1 << 30, 4}), too_big("needs 4294967296 chunks, a schedule has at most"));
  EXPECT_THAT(PsExchangeShape({40000, 39999, 1, Placement::kSplit}), too_big("ps_exchange: needs"));
  // Many ranks alone are no trouble: waits name lanes, and those are two a channel.
  for (const int32_t rank : {0, 1, 500, 999}) {
    EXPECT_EQ(NaiveLanes({1000, 1}, rank).size(), 2U);
    EXPECT_EQ(DirectLanes({1000, 1}, rank).size(), 2U);
  }
}

TEST(BroadcastTest, MovesEveryChunkOnceOverEveryHop) {
  const Schedule chain = *MakeRooted({5, 3, 4});
  for (int32_t rank = 0; rank < 5; ++rank) {  // 2 is last: 3 -> 4 -> 0 -> 1 -> 2
    const Share expected{rank == 2 ? 0 : 4, rank == 3 ? 0 : 4};
    EXPECT_EQ(ShareOf(chain.ranks[static_cast<size_t>(rank)]), expected) << "rank " << rank;
  }
}

TEST(PingPongTest, RanksZeroAndOneExchangeOneChunkAndTheOthersDoNothing) {
  for (const int32_t messages : {1, 4}) {
    for (const int32_t n : {2, 3, 33}) {
      Schedule schedule = *MakePingPong({n, messages});
      Goal goal = BroadcastGoal(schedule, 0);
      for (size_t rank = 2; rank < goal.wants.size(); ++rank) {
        goal.wants[rank].assign(static_cast<size_t>(messages), 0);
        EXPECT_EQ(ShareOf(schedule.ranks[rank]), Share{});
      }
      EXPECT_EQ(ShareOf(schedule.ranks[0]), (Share{messages, 1}));
      EXPECT_EQ(ShareOf(schedule.ranks[1]), (Share{1, messages}));
      EXPECT_EQ(DepthOf(schedule), 2);
      for (const int32_t slots : {1, 2, 8}) {
        schedule.slots = slots;
        EXPECT_THAT(Verify(schedule, goal).ToStatus(), IsOk()) << "n " << n << " slots " << slots;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
