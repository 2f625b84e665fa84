// Properties that every generator promises: it verifies at its declared slots and stands still
// below those it needs, tile after tile too, and moves the bytes of its formula in messages that
// depend on each other as deep as it says. One source for two tiers: full has the rest of n <= 33.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/broadcast.h"
#include "allreduce/schedule/naive.h"
#include "allreduce/schedule/ping_pong.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/ring.h"
#include "allreduce/schedule/tree.h"
#include "allreduce/schedule/verify.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

// Chunks that a rank sends and receives.
struct Share {
  int64_t sent = 0;
  int64_t received = 0;
  bool operator==(const Share&) const = default;
};
void PrintTo(const Share& share, std::ostream* out) {
  *out << "sent " << share.sent << ", received " << share.received;
}

struct AllReduceCase {
  std::string name;
  std::function<Schedule()> make;
  int32_t chunks = 0;
  int32_t slots_needed = 1;
  int64_t depth = 0;  // longest chain of messages of which each depends on the one before
  std::function<Share(int32_t rank)> share;
};
void PrintTo(const AllReduceCase& param, std::ostream* out) { *out << param.name; }

AllReduceCase RingCase(const RingSpec& spec) {
  const int64_t n = spec.world_size;
  const int64_t passed = 2 * (n - 1) * spec.channels;
  return {.name = absl::StrCat("Ring", n, "Channels", spec.channels),
          .make = [=] { return *MakeRing(spec); },
          .chunks = spec.world_size * spec.channels,
          .slots_needed = n > 1 ? 2 : 1,
          .depth = 2 * (n - 1),
          .share =
              [=](int32_t) {
                return Share{passed, passed};
              }};
}

AllReduceCase NaiveCase(const NaiveSpec& spec) {
  const int64_t n = spec.world_size;
  const int64_t told = (n - 1) * spec.channels;
  return {.name = absl::StrCat("Naive", n, "Channels", spec.channels),
          .make = [=] { return *MakeNaive(spec); },
          .chunks = spec.channels,
          .depth = n > 1 ? 1 : 0,
          .share =
              [=](int32_t) {
                return Share{told, told};
              }};
}

AllReduceCase TreeCase(const TreeSpec& spec) {
  const int32_t n = spec.world_size;
  const int32_t chunks = spec.channels * spec.chunks_per_channel;
  int64_t height = 0;
  while ((2 << height) <= n) ++height;
  const auto share = [=](int32_t rank) {
    const int64_t children = std::clamp(n - 1 - 2 * rank, 0, 2);
    const int64_t parents = rank == 0 ? 0 : 1;
    return Share{(children + parents) * chunks, (children + parents) * chunks};
  };
  return {
      .name = absl::StrCat("Tree", n, "Channels", spec.channels, "Chunks", spec.chunks_per_channel),
      .make = [=] { return *MakeTree(spec); },
      .chunks = chunks,
      .depth = 2 * height,
      .share = share};
}

AllReduceCase PsExchangeCase(const PsExchangeSpec& spec) {
  const int64_t chunks = int64_t{spec.servers} * spec.channels;
  const auto share = [=](int32_t rank) {
    const int64_t moved =
        rank < spec.workers ? chunks : int64_t{spec.workers} * chunks / spec.servers;
    return Share{moved, moved};
  };
  return {.name = absl::StrCat("Workers", spec.workers, "Servers", spec.servers, "Channels",
                               spec.channels),
          .make = [=] { return *MakePsExchange(spec); },
          .chunks = spec.servers * spec.channels,
          .depth = 2,
          .share = share};
}

std::vector<AllReduceCase> AllReduceCases() {
  const std::set<int32_t> quick = {1, 2, 3, 4, 5, 7, 8, 13, 16, 33};
  constexpr int32_t kEveryServers = kFullTier ? 16 : 8;  // up to so many workers
  std::vector<AllReduceCase> cases;
  for (int32_t n = 1; n <= 33; ++n) {
    if (quick.contains(n) == kFullTier) continue;
    for (const int32_t channels : {1, 3}) {
      cases.push_back(RingCase({n, channels}));
      cases.push_back(NaiveCase({n, channels}));
      cases.push_back(TreeCase({n, channels, channels == 1 ? 8 : 1}));
    }
    cases.push_back(TreeCase({n, 2, 5}));
    for (int32_t servers = 1; servers <= n; ++servers) {
      const bool few = servers <= 3 || servers == n;
      if (few || n <= kEveryServers) cases.push_back(PsExchangeCase({n, servers, 1}));
    }
    cases.push_back(PsExchangeCase({n, 2, 3}));
  }
  return cases;
}

Share ShareOf(const std::vector<Lane>& lanes) {
  Share share;
  for (const Lane& lane : lanes) {
    for (const Move& move : lane.moves) {
      share.sent += move.send_to == kNone ? 0 : move.count;
      share.received += move.recv_from == kNone ? 0 : move.count;
    }
  }
  return share;
}

// The program once for each tile, as an executor runs it, as one schedule: a lane goes on to its
// next tile while others are at the last one.
Schedule Tiled(const Schedule& schedule, int32_t tiles) {
  Schedule tiled = schedule;
  tiled.chunks *= tiles;
  tiled.scratch = schedule.scratch == 0 ? 0 : tiled.chunks;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t lane = 0; lane < schedule.ranks[rank].size(); ++lane) {
      std::vector<Move>& moves = tiled.ranks[rank][lane].moves;
      moves.clear();
      for (int32_t tile = 0; tile < tiles; ++tile) {
        for (Move move : schedule.ranks[rank][lane].moves) {
          const auto shift = [&](int32_t* chunk) {
            if (*chunk == kNone) return;
            if (*chunk >= schedule.chunks) *chunk += tiled.chunks - schedule.chunks;
            *chunk += tile * schedule.chunks;
          };
          shift(&move.in);
          shift(&move.out);
          if (move.wait_lane != kNone) {
            const auto& awaited = schedule.ranks[rank][static_cast<size_t>(move.wait_lane)].moves;
            move.wait_move += tile * static_cast<int32_t>(awaited.size());
          }
          moves.push_back(move);
        }
      }
    }
  }
  return tiled;
}

// Longest chain of dependent messages: a message is one deeper than the deepest that its lane has
// received before, or that a lane has which it waited for.
int64_t DepthOf(const Schedule& schedule) {
  std::vector<std::vector<std::vector<int64_t>>> depths(schedule.ranks.size());  // after each move
  std::map<std::array<int32_t, 3>, std::deque<int64_t>> wires;
  int64_t deepest = 0;
  const auto step = [&](int32_t rank, size_t lane_index) {
    auto& mine = depths[static_cast<size_t>(rank)];
    const Lane& lane = schedule.ranks[static_cast<size_t>(rank)][lane_index];
    std::vector<int64_t>& after = mine[lane_index];
    if (after.size() == lane.moves.size()) return false;
    const Move& move = lane.moves[after.size()];
    int64_t depth = after.empty() ? 0 : after.back();
    if (move.wait_lane != kNone) {
      const auto& awaited = mine[static_cast<size_t>(move.wait_lane)];
      if (awaited.size() <= static_cast<size_t>(move.wait_move)) return false;
      depth = std::max(depth, awaited[static_cast<size_t>(move.wait_move)]);
    }
    if (move.recv_from != kNone) {
      auto& wire = wires[{move.recv_from, rank, lane.channel}];
      if (wire.empty()) return false;
      depth = std::max(depth, wire.front());
      wire.pop_front();
    }
    if (move.send_to != kNone) wires[{rank, move.send_to, lane.channel}].push_back(depth + 1);
    after.push_back(depth);
    deepest = std::max(deepest, depth);
    return true;
  };
  for (size_t r = 0; r < depths.size(); ++r) depths[r].resize(schedule.ranks[r].size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
      for (size_t lane = 0; lane < depths[static_cast<size_t>(rank)].size(); ++lane) {
        while (step(rank, lane)) moved = true;
      }
    }
  }
  return deepest;
}

class AllReduceScheduleTest : public testing::TestWithParam<AllReduceCase> {};

TEST_P(AllReduceScheduleTest, VerifiesFromTheSlotsItNeedsAndStandsStillBelow) {
  Schedule schedule = GetParam().make();
  EXPECT_GE(schedule.slots, GetParam().slots_needed);
  for (const int32_t slots : {1, 2, 8}) {
    schedule.slots = slots;
    const VerifyReport report = Verify(schedule, AllReduceGoal(schedule));
    if (slots < GetParam().slots_needed) {
      EXPECT_TRUE(report.Has(Fault::kDeadlock)) << "slots " << slots;
    } else {
      EXPECT_THAT(report.ToStatus(), IsOk()) << "slots " << slots;
    }
  }
}

TEST_P(AllReduceScheduleTest, VerifiesTileAfterTile) {
  Schedule tiled = Tiled(GetParam().make(), 3);
  tiled.slots = GetParam().slots_needed;
  EXPECT_THAT(Verify(tiled, AllReduceGoal(tiled)).ToStatus(), IsOk());
}

TEST_P(AllReduceScheduleTest, EveryRankSendsAndReceivesTheFormulasShare) {
  const Schedule schedule = GetParam().make();
  EXPECT_EQ(schedule.chunks, GetParam().chunks);
  for (int32_t rank = 0; rank < schedule.world_size; ++rank) {
    EXPECT_EQ(ShareOf(schedule.ranks[static_cast<size_t>(rank)]), GetParam().share(rank))
        << "rank " << rank;
  }
}

TEST_P(AllReduceScheduleTest, MessagesDependOnEachOtherAsDeepAsTheHeaderSays) {
  EXPECT_EQ(DepthOf(GetParam().make()), GetParam().depth);
}

std::string Name(const testing::TestParamInfo<AllReduceCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, AllReduceScheduleTest, testing::ValuesIn(AllReduceCases()), Name);

// A fused move wants a message and a free slot at once: one slot is not enough for a cycle of them.
TEST(RingTest, OneSlotIsADeadlockWithItsCycleNamed) {
  Schedule ring = *MakeRing({5, 1});
  ring.slots = 1;
  EXPECT_THAT(Verify(ring, AllReduceGoal(ring)).ToStatus(),
              StatusIs(StatusCode::kFailedPrecondition,
                       "deadlock: rank 0 lane 0 move 1: cycle with 1 slots: "
                       "rank 0 lane 0 move 1 waits for a free slot to rank 1"));
}

TEST(NaiveTest, EveryRankStartsWithThePeerAfterItself) {
  for (int32_t rank = 0; rank < 5; ++rank) {
    const std::vector<Lane> lanes = NaiveLanes({5, 2}, rank);
    EXPECT_EQ(lanes[0].moves[0].send_to, (rank + 1) % 5);
    EXPECT_EQ(lanes[1].moves[0].send_to, (rank + 1) % 5);
  }
}

TEST(PsExchangeTest, WorkersStartAtDifferentServersAndServersAtDifferentWorkers) {
  for (int32_t worker = 0; worker < 5; ++worker) {
    EXPECT_EQ(PsExchangeLanes({5, 3, 2}, worker)[0].moves[0].send_to, 5 + worker % 3);
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

TEST(TreeTest, NoRankSendsMoreThanThreeTimesItsInput) {
  const Schedule tree = *MakeTree({33, 1, 8});
  for (const auto& lanes : tree.ranks) EXPECT_LE(ShareOf(lanes).sent, 3 * 8);
}

TEST(ScheduleErrors, NameWhatTheGeneratorWasGiven) {
  const auto refused = [](const char* what) {
    return StatusIs(StatusCode::kInvalidArgument, what);
  };
  EXPECT_THAT(MakeRing({0, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeRing({2, 0}), refused("channels 0"));
  EXPECT_THAT(MakeNaive({0, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeNaive({2, 0}), refused("channels 0"));
  EXPECT_THAT(MakeNaive({2, 129}), refused("channels 129"));
  EXPECT_THAT(MakeTree({0, 1, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeTree({2, 129, 1}), refused("channels 129"));
  EXPECT_THAT(MakeTree({2, 1, 0}), refused("chunks_per_channel 0"));
  EXPECT_THAT(MakePsExchange({0, 1, 1}), refused("workers 0"));
  EXPECT_THAT(MakePsExchange({1, 0, 1}), refused("servers 0"));
  EXPECT_THAT(MakePsExchange({1, 1, 129}), refused("channels 129"));
  EXPECT_THAT(MakePingPong({1}), refused("world_size 1"));
  EXPECT_THAT(MakeBroadcast({0, 0, 1}), refused("world_size 0"));
  EXPECT_THAT(MakeBroadcast({2, 2, 1}), refused("root 2"));
  EXPECT_THAT(MakeBroadcast({2, 0, 0}), refused("chunks 0"));
}

TEST(BroadcastTest, VerifiesFromEveryRootEvenWithOneSlot) {
  for (const int32_t n : {1, 2, 3, 4, 5, 7, 8, 13, 16, 33}) {
    for (const int32_t root : {0, n / 2, n - 1}) {
      Schedule chain = *MakeBroadcast({n, root, 4});
      for (const int32_t slots : {1, 2, 8}) {
        chain.slots = slots;
        EXPECT_THAT(Verify(chain, BroadcastGoal(chain, root)).ToStatus(), IsOk())
            << "n " << n << " root " << root << " slots " << slots;
      }
    }
  }
}

TEST(BroadcastTest, MovesEveryChunkOnceOverEveryHop) {
  const Schedule chain = *MakeBroadcast({5, 3, 4});
  for (int32_t rank = 0; rank < 5; ++rank) {  // 2 is last: 3 -> 4 -> 0 -> 1 -> 2
    const Share expected{rank == 2 ? 0 : 4, rank == 3 ? 0 : 4};
    EXPECT_EQ(ShareOf(chain.ranks[static_cast<size_t>(rank)]), expected) << "rank " << rank;
  }
}

TEST(PingPongTest, RanksZeroAndOneExchangeOneChunkAndTheOthersDoNothing) {
  for (const int32_t n : {2, 3, 33}) {
    Schedule schedule = *MakePingPong({n});
    Goal goal = BroadcastGoal(schedule, 0);
    for (int32_t rank = 0; rank < n; ++rank) {
      const bool plays = rank < 2;
      if (!plays) goal.wants[static_cast<size_t>(rank)][0] = 0;
      const Share expected = plays ? Share{1, 1} : Share{};
      EXPECT_EQ(ShareOf(schedule.ranks[static_cast<size_t>(rank)]), expected) << "rank " << rank;
    }
    EXPECT_EQ(DepthOf(schedule), 2);
    for (const int32_t slots : {1, 2, 8}) {
      schedule.slots = slots;
      EXPECT_THAT(Verify(schedule, goal).ToStatus(), IsOk()) << "n " << n << " slots " << slots;
    }
  }
}

}  // namespace
}  // namespace lockstep
