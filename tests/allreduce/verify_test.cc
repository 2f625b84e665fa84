// One small schedule for each fault that the verifier names.
#include "allreduce/schedule/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allreduce/schedule/ring.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

// Two ranks, `chunks` chunks, lanes as given; each lane on the channel of its index.
Schedule TwoRanks(int32_t chunks, const std::vector<std::vector<std::vector<Move>>>& moves) {
  Schedule schedule;
  schedule.world_size = static_cast<int32_t>(moves.size());
  schedule.contributors = schedule.world_size;
  schedule.chunks = chunks;
  for (const auto& rank : moves) {
    std::vector<Lane>& lanes = schedule.ranks.emplace_back();
    for (const auto& lane : rank) lanes.push_back({static_cast<int32_t>(lanes.size()), lane});
  }
  return schedule;
}

VerifyReport AllReduceReport(const Schedule& schedule) {
  return Verify(schedule, AllReduceGoal(schedule));
}

// The finding of this kind, with rank, lane and move as expected.
void ExpectFinding(const VerifyReport& report, Fault fault, int32_t rank, int32_t lane,
                   int32_t move, const std::string& what) {
  for (const Finding& finding : report.findings) {
    if (finding.fault != fault) continue;
    EXPECT_EQ(finding.rank, rank);
    EXPECT_EQ(finding.lane, lane);
    EXPECT_EQ(finding.move, move);
    EXPECT_THAT(finding.what, HasSubstr(what));
    return;
  }
  ADD_FAILURE() << "no " << NameOf(fault) << " in: " << report.ToStatus();
}

// Each rank sends its chunk and folds the other's: an all-reduce of two ranks in two moves.
std::vector<std::vector<std::vector<Move>>> Exchange() {
  return {{{{.send_to = 1, .in = 0}, {.recv_from = 1, .in = 0, .out = 0}}},
          {{{.send_to = 0, .in = 0}, {.recv_from = 0, .in = 0, .out = 0}}}};
}

TEST(VerifyTest, AcceptsAnExchange) {
  EXPECT_THAT(AllReduceReport(TwoRanks(1, Exchange())).ToStatus(), IsOk());
}

TEST(VerifyTest, DoubleCount) {
  auto moves = Exchange();
  moves[0][0].push_back({.send_to = 1, .in = 0});  // the sum, of which rank 1 has its part already
  moves[1][0].push_back({.recv_from = 0, .in = 0, .out = 0});
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kDoubleCount, 1, 0, 2,
                "folds ranks {0, 1} of chunk 0 a second time");
}

TEST(VerifyTest, DifferentChunks) {
  auto moves = Exchange();
  moves[1][0][0].in = 1;
  ExpectFinding(AllReduceReport(TwoRanks(2, moves)), Fault::kDifferentChunks, 0, 0, 1,
                "folds chunk 0 into a message that holds chunk 1");
}

TEST(VerifyTest, EmptyValue) {
  Schedule schedule = TwoRanks(1, Exchange());
  schedule.scratch = 1;
  schedule.ranks[0][0].moves[0].in = 1;
  ExpectFinding(AllReduceReport(schedule), Fault::kEmptyValue, 0, 0, 0, "chunk 1, which is empty");
  auto moves = Exchange();
  moves[0][0][0].in = kNone;
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kEmptyValue, 0, 0, 0, "nothing");
}

TEST(VerifyTest, SizeMismatch) {
  auto moves = Exchange();
  moves[0][0][0].count = 2;
  ExpectFinding(AllReduceReport(TwoRanks(2, moves)), Fault::kSizeMismatch, 1, 0, 1,
                "receives 1 chunks, rank 0 sent 2 in its move 0");
}

TEST(VerifyTest, DeadlockPrintsTheCycle) {
  auto moves = Exchange();
  for (auto& rank : moves) std::swap(rank[0][0], rank[0][1]);
  ExpectFinding(
      AllReduceReport(TwoRanks(1, moves)), Fault::kDeadlock, 0, 0, 0,
      "rank 0 lane 0 move 0 waits for a message from rank 1 -> rank 1 lane 0 move 0 waits "
      "for a message from rank 0 -> back to rank 0 lane 0 move 0");
}

TEST(VerifyTest, DeadlockWithoutACycleSaysThatNobodySends) {
  auto moves = Exchange();
  moves[1][0].erase(moves[1][0].begin());
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kDeadlock, 0, 0, 1,
                "waits for a message from rank 1, and no lane will provide it");
}

TEST(VerifyTest, UnreadMessage) {
  auto moves = Exchange();
  moves[0][0].push_back({.send_to = 1, .in = 0});
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kUnreadMessage, 0, 0, 2,
                "1 messages to rank 1 channel 0");
}

TEST(VerifyTest, WrongFinalValue) {
  auto moves = Exchange();
  moves[1][0][1].in = kNone;  // overwrites its own part instead of adding
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kWrongFinalValue, 1, 0, 1,
                "chunk 0 ends with ranks {0} of chunk 0, expected ranks {0, 1}");
}

// All the right ranks, but of the other chunk: nothing was folded.
TEST(VerifyTest, WrongFinalValueOfTheRightRanks) {
  const Schedule swapped =
      TwoRanks(2, {{{{.send_to = 1, .in = 0}, {.send_to = 1, .in = 1}}},
                   {{{.recv_from = 0, .out = 1}, {.recv_from = 0, .out = 0}}}});
  ExpectFinding(Verify(swapped, BroadcastGoal(swapped, 0)), Fault::kWrongFinalValue, 1, 0, 1,
                "chunk 0 ends with ranks {0} of chunk 1, expected ranks {0}");
  // Chunks differ in size by one element, so the first such write is a fault already.
  ExpectFinding(Verify(swapped, BroadcastGoal(swapped, 0)), Fault::kDifferentChunks, 1, 0, 0,
                "writes chunk 0 to 1, a place of chunk 1");
}

TEST(VerifyTest, AFoldAddsWhatOutHolds) {
  auto moves = Exchange();
  moves[1][0][1] = {.recv_from = 0, .out = 0, .fold = true};  // instead of .in = 0
  EXPECT_THAT(AllReduceReport(TwoRanks(1, moves)).ToStatus(), IsOk());
  moves[1][0][1].in = 0;  // as well as it
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kDoubleCount, 1, 0, 1,
                "folds ranks {1} of chunk 0 a second time");
  moves[1][0][1].out = kNone;
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kMalformed, 1, 0, 1, "has no out");
  Schedule schedule = TwoRanks(1, Exchange());
  schedule.scratch = 1;
  schedule.ranks[0][0].moves.push_back({.in = 0, .out = 1, .fold = true});
  ExpectFinding(AllReduceReport(schedule), Fault::kEmptyValue, 0, 0, 2, "chunk 1, which is empty");
}

TEST(VerifyTest, ScratchHoldsValuesOfItsOwnChunk) {
  Schedule schedule = TwoRanks(2, Exchange());
  schedule.scratch = 3;  // ids 2, 3, 4: of chunks 0, 1, 0
  schedule.ranks[0][0].moves.push_back({.in = 0, .out = 2});
  schedule.ranks[0][0].moves.push_back({.in = 2, .out = 4});
  EXPECT_FALSE(AllReduceReport(schedule).Has(Fault::kDifferentChunks));
  schedule.ranks[0][0].moves.push_back({.in = 4, .out = 3});
  ExpectFinding(AllReduceReport(schedule), Fault::kDifferentChunks, 0, 0, 4,
                "writes chunk 0 to 3, a place of chunk 1");
}

TEST(VerifyTest, OneLaneAloneUsesAScratchChunk) {
  auto moves = Exchange();
  moves[0][0].push_back({.in = 0, .out = 1});
  moves[0].push_back({{.in = 1, .out = 0, .wait_lane = 0, .wait_move = 2}});
  Schedule schedule = TwoRanks(1, moves);
  schedule.scratch = 1;
  ExpectFinding(AllReduceReport(schedule), Fault::kMalformed, 0, 1, 0, "which is lane 0's");
  schedule.ranks[0][1].moves.clear();
  EXPECT_THAT(AllReduceReport(schedule).ToStatus(), IsOk());
}

TEST(VerifyTest, RanksThatContributeNothingWantNothing) {
  // Rank 2 adds what 0 and 1 send and answers; its own chunk starts empty and may end as it likes.
  auto moves = Exchange();
  for (auto& rank : moves) rank[0] = {{.send_to = 2, .in = 0}, {.recv_from = 2, .out = 0}};
  moves.push_back({{{.recv_from = 0, .out = 0},
                    {.recv_from = 1, .send_to = 0, .in = 0, .out = 0},
                    {.send_to = 1, .in = 0}}});
  Schedule schedule = TwoRanks(1, moves);
  schedule.contributors = 2;
  EXPECT_THAT(AllReduceReport(schedule).ToStatus(), IsOk());
  schedule.ranks[2][0].moves[1].out = kNone;  // answers rank 1 with rank 0's part alone
  ExpectFinding(AllReduceReport(schedule), Fault::kWrongFinalValue, 1, 0, 1,
                "ranks {0} of chunk 0");
  schedule.ranks[2][0].moves[0] = {.recv_from = 0, .out = 0, .fold = true};
  ExpectFinding(AllReduceReport(schedule), Fault::kEmptyValue, 2, 0, 0, "chunk 0, which is empty");
}

TEST(VerifyTest, RaceBetweenLanesAndItsCure) {
  // Lane 0 of rank 1 keeps the sum; lane 1 sends it on, in no order with lane 0.
  auto moves = Exchange();
  moves[1].push_back({{.send_to = 0, .in = 0}});
  moves[0].push_back({{.recv_from = 1, .out = 0}});
  const VerifyReport racing = AllReduceReport(TwoRanks(1, moves));
  EXPECT_TRUE(racing.Has(Fault::kRace)) << racing.ToStatus();
  // Both sides wait for their lane 0: ordered, and still the right sum.
  moves[1][1][0].wait_lane = 0;
  moves[1][1][0].wait_move = 1;
  moves[0][1][0].wait_lane = 0;
  moves[0][1][0].wait_move = 1;
  EXPECT_THAT(AllReduceReport(TwoRanks(1, moves)).ToStatus(), IsOk());
  // Without rank 0's wait only rank 0 races: its lane 1 overwrites what lane 0 reads.
  moves[0][1][0].wait_lane = kNone;
  ExpectFinding(AllReduceReport(TwoRanks(1, moves)), Fault::kRace, 0, 1, 0,
                "chunk 0 in no order with lane 0 move 1");
}

TEST(VerifyTest, AMessageOrdersLanesOfOneRank) {
  // Rank 0: lane 0 writes chunk 0 and then sends to rank 1, whose answer lane 1 waits for.
  const Schedule schedule = TwoRanks(
      1, {{{{.send_to = 1, .in = 0}, {.recv_from = 1, .in = 0, .out = 0}, {.send_to = 1, .in = 0}},
           {{.recv_from = 1, .out = 0}}},
          {{{.send_to = 0, .in = 0}, {.recv_from = 0}, {.recv_from = 0, .out = 0}},
           {{.send_to = 0, .in = 0, .wait_lane = 0, .wait_move = 2}}}});
  EXPECT_THAT(AllReduceReport(schedule).ToStatus(), IsOk());
}

TEST(VerifyTest, ADeadlockOverLanesSlotsAndMessagesNamesEachOfThem) {
  // Rank 0's lane 1 may send when lane 0 has received; rank 1 answers lane 0 after hearing lane 1.
  const Schedule schedule = TwoRanks(
      1,
      {{{{.recv_from = 1, .in = 0, .out = 0}},
        {{.send_to = 1, .in = 0, .wait_lane = 0, .wait_move = 0}}},
       {{{.send_to = 0, .in = 0, .wait_lane = 1, .wait_move = 0}}, {{.recv_from = 0, .out = 0}}}});
  ExpectFinding(AllReduceReport(schedule), Fault::kDeadlock, 0, 0, 0,
                "cycle with 2 slots: rank 0 lane 0 move 0 waits for a message from rank 1 -> "
                "rank 1 lane 0 move 0 waits for lane 1 to finish move 0 -> "
                "rank 1 lane 1 move 0 waits for a message from rank 0 -> "
                "rank 0 lane 1 move 0 waits for lane 0 to finish move 0 -> "
                "back to rank 0 lane 0 move 0");
}

// Three ranks; each tells the next one, or all tell rank 0 and it tells them.
TEST(VerifyTest, ABarrierMustHearOfEverybody) {
  std::vector<std::vector<std::vector<Move>>> moves(3);
  moves[0] = {{{.recv_from = 1, .out = 0},
               {.recv_from = 2, .out = 0},
               {.send_to = 1, .in = 0},
               {.send_to = 2, .in = 0}}};
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    moves[rank] = {{{.send_to = 0, .in = 0}, {.recv_from = 0, .out = 0}}};
  }
  const auto report = [](const Schedule& schedule) {
    return Verify(schedule, *GoalOf(Collective::kBarrier, schedule));
  };
  EXPECT_THAT(report(TwoRanks(1, moves)).ToStatus(), IsOk());
  std::swap(moves[0][0][1], moves[0][0][2]);  // tells rank 1 before it has heard of rank 2
  const VerifyReport early = report(TwoRanks(1, moves));
  ExpectFinding(early, Fault::kEarlyEnd, 1, kNone, kNone, "may be through before rank 2 has come");
  EXPECT_EQ(early.findings.size(), 1U);
  EXPECT_EQ(report(TwoRanks(1, {{{}}, {{}}})).findings.size(), 2U);  // nobody tells anything
}

TEST(GoalTest, SaysWhoHoldsAndWhoWants) {
  using Marks = std::vector<std::vector<uint8_t>>;
  const Schedule schedule = TwoRanks(2, Exchange());
  const Marks all = {{1, 1}, {1, 1}};
  const Marks parts = {{1, 0}, {0, 1}};
  const auto goal = [&](Collective collective, int32_t root = 0) {
    return *GoalOf(collective, schedule, root);
  };
  EXPECT_EQ(goal(Collective::kAllReduce).holds, all);
  EXPECT_EQ(goal(Collective::kAllReduce).wants, all);
  EXPECT_EQ(goal(Collective::kReduce, 1).holds, all);
  EXPECT_EQ(goal(Collective::kReduce, 1).wants, (Marks{{0, 0}, {1, 1}}));
  EXPECT_EQ(goal(Collective::kBroadcast, 1).holds, (Marks{{0, 0}, {1, 1}}));
  EXPECT_EQ(goal(Collective::kBroadcast, 1).wants, all);
  EXPECT_EQ(goal(Collective::kReduceScatter).holds, all);
  EXPECT_EQ(goal(Collective::kReduceScatter).wants, parts);
  EXPECT_EQ(goal(Collective::kAllGather).holds, parts);
  EXPECT_EQ(goal(Collective::kAllGather).wants, all);
  EXPECT_TRUE(goal(Collective::kBarrier).meets);
  EXPECT_THAT(GoalOf(Collective::kReduce, schedule, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, "root 2 is no rank of 0..1"));
  EXPECT_THAT(GoalOf(Collective::kAllGather, TwoRanks(3, Exchange())),
              StatusIs(absl::StatusCode::kInvalidArgument, "3 chunks are no multiple of 2 ranks"));
}

TEST(VerifyTest, MalformedIndicesAreFoundBeforeAnythingRuns) {
  const auto with = [](const auto& change) {
    Schedule schedule = TwoRanks(1, Exchange());
    change(&schedule.ranks[1][0].moves[1]);
    return AllReduceReport(schedule);
  };
  ExpectFinding(with([](Move* m) { m->recv_from = 2; }), Fault::kMalformed, 1, 0, 1, "peer 2");
  ExpectFinding(with([](Move* m) { m->send_to = 1; }), Fault::kMalformed, 1, 0, 1, "peer 1");
  ExpectFinding(with([](Move* m) { m->out = 1; }), Fault::kMalformed, 1, 0, 1, "chunks 1..1");
  ExpectFinding(with([](Move* m) { m->count = 0; }), Fault::kMalformed, 1, 0, 1, "count 0");
  ExpectFinding(with([](Move* m) { m->wait_lane = 3; }), Fault::kMalformed, 1, 0, 1, "lane 3");
}

TEST(VerifyTest, OneMessageIsDataOrScratch) {
  Schedule schedule = TwoRanks(1, Exchange());
  schedule.scratch = 1;
  schedule.ranks[1][0].moves[0].count = 2;
  ExpectFinding(AllReduceReport(schedule), Fault::kMalformed, 1, 0, 0,
                "chunks 0..1 are data and scratch");
}

TEST(VerifyTest, OneLaneOwnsEachEndOfAConnection) {
  auto moves = Exchange();
  moves[0].push_back({{.send_to = 1, .in = 0}});
  Schedule schedule = TwoRanks(1, moves);
  schedule.ranks[0][1].channel = 0;
  ExpectFinding(AllReduceReport(schedule), Fault::kMalformed, 0, 1, 0, "that lane 0 owns");
}

TEST(VerifyTest, KeepsTheFirstFindingsOnly) {
  Schedule ring = *MakeRing({8, 1});
  for (auto& lanes : ring.ranks) {
    for (Move& move : lanes[0].moves) move.out = kNone;
  }
  EXPECT_EQ(AllReduceReport(ring).findings.size(), static_cast<size_t>(kFindingsMax));
}

}  // namespace
}  // namespace lockstep
