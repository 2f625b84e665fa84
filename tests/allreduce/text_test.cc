// The text form: what a person writes is what is meant, every generated schedule comes back as it
// was, and whatever else is written is refused with its place, what was expected and an example.
#include "allreduce/schedule/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/schedule/ping_pong.h"
#include "allreduce/schedule/verify.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

// CASES R61: as a student writes it, with what may be left out left out.
constexpr char kRingByHand[] = R"(# The sum travels round the ring.
ranks 3
chunks 3

rank 0
  take chunk 2, send to 1                # reduce-scatter
  recv from 2, add chunk 1, send to 1
  recv from 2, add chunk 0, store in chunk 0, send to 1
  recv from 2, store in chunk 2, send to 1   # all-gather
  recv from 2, store in chunk 1
rank 1
  take chunk 0, send to 2
  recv from 0, add chunk 2, send to 2
  recv from 0, add chunk 1, store in chunk 1, send to 2
  recv from 0, store in chunk 0, send to 2
  recv from 0, store in chunk 2
rank 2
  take chunk 1, send to 0
  recv from 1, add chunk 0, send to 0
  recv from 1, add chunk 2, store in chunk 2, send to 0
  recv from 1, store in chunk 1, send to 0
  recv from 1, store in chunk 0
)";

bool Same(const Shape& a, const Shape& b) {
  return a.world_size == b.world_size && a.contributors == b.contributors && a.chunks == b.chunks &&
         a.scratch == b.scratch && a.slots == b.slots;
}

TEST(TextTest, ARingWrittenByHandIsTheGeneratedOne) {
  const auto text = ParseSchedule(kRingByHand);
  ASSERT_THAT(text, IsOk());
  const Schedule ring = *MakeSchedule({.world_size = 3});
  EXPECT_TRUE(Same(text->schedule, ring));
  EXPECT_EQ(text->schedule.ranks, ring.ranks);
  EXPECT_EQ(text->goal, Collective::kAllReduce);
  EXPECT_THAT(Verify(text->schedule, AllReduceGoal(text->schedule)).ToStatus(), IsOk());
  EXPECT_THAT(text->lines[0], ElementsAre(ElementsAre(6, 7, 8, 9, 10)));
  EXPECT_THAT(text->lines[2], ElementsAre(ElementsAre(18, 19, 20, 21, 22)));
}

TEST(TextTest, EveryPartOfAMove) {
  const auto text = ParseSchedule(
      "ranks 3\nchunks 8\nscratch 8\ncontributors 2\nslots 5\ngoal reduce to 1\n"
      "rank 2\n"
      "lane 0 channel 7\n"
      "recv 3 chunks from 0, send to 1\n"
      "recv 1 chunk from 0\n"
      "\ttake chunks 2..4, fold into scratch 1..3, send to 0\r\n"
      "lane 1 channel 0\n"
      "wait for lane 0 move 2\n"
      "wait for lane 0 move 2, recv from 1, add scratch 0, fold into chunk 0, send to 0 # all\n"
      "fold into chunk 1\n");
  ASSERT_THAT(text, IsOk());
  EXPECT_TRUE(Same(text->schedule, {3, 2, 8, 8, 5}));
  EXPECT_EQ(text->goal, Collective::kReduce);
  EXPECT_EQ(text->root, 1);
  EXPECT_TRUE(text->schedule.ranks[0].empty());
  const std::vector<Lane> expected = {
      {7,
       {{.recv_from = 0, .send_to = 1, .count = 3},
        {.recv_from = 0},
        {.send_to = 0, .in = 2, .out = 9, .count = 3, .fold = true}}},
      {0,
       {{.wait_lane = 0, .wait_move = 2},
        {.recv_from = 1,
         .send_to = 0,
         .in = 8,
         .out = 0,
         .wait_lane = 0,
         .fold = true,
         .wait_move = 2},
        {.out = 1, .fold = true}}}};
  EXPECT_EQ(text->schedule.ranks[2], expected);
}

struct GeneratedCase {
  ScheduleSpec spec;
  std::string Name() const {
    return absl::StrReplaceAll(
        absl::StrCat(NameOf(spec.collective), "_", NameOf(spec.algorithm), "_", spec.world_size,
                     "_", spec.servers, "_", NameOf(spec.placement), "_", spec.channels),
        {{"-", "m"}});
  }
};
void PrintTo(const GeneratedCase& param, std::ostream* out) { *out << param.Name(); }
class GeneratedTest : public testing::TestWithParam<GeneratedCase> {};

TEST_P(GeneratedTest, ComesBackAsItWasWritten) {
  const ScheduleSpec& spec = GetParam().spec;
  const auto schedule = MakeSchedule(spec);
  ASSERT_THAT(schedule, IsOk());
  const std::string written = WriteSchedule(*schedule, spec.collective, spec.root);
  const auto text = ParseSchedule(written);
  ASSERT_THAT(text, IsOk()) << written;
  EXPECT_TRUE(Same(text->schedule, *schedule)) << written;
  EXPECT_EQ(text->schedule.ranks, schedule->ranks) << written;
  EXPECT_EQ(text->goal, spec.collective);
  EXPECT_EQ(text->root, spec.root);
}

// Every spec that has a generator.
std::vector<GeneratedCase> GeneratedCases() {
  std::vector<GeneratedCase> cases;
  const auto add = [&](const ScheduleSpec& spec) {
    if (MakeSchedule(spec).ok()) cases.push_back({spec});
  };
  for (int32_t n = 1; n <= 9; ++n) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const int32_t channels : {1, 2}) {
        for (const Collective collective : kCollectives) {
          const bool rooted =
              collective == Collective::kReduce || collective == Collective::kBroadcast;
          ScheduleSpec spec{.collective = collective,
                            .algorithm = algorithm,
                            .world_size = n,
                            .channels = channels,
                            .root = rooted ? n - 1 : 0};
          if (algorithm != Algorithm::kPsExchange) {
            add(spec);
            continue;
          }
          for (const auto placement :
               {Placement::kSpare, Placement::kColocated, Placement::kSplit}) {
            spec.placement = placement;
            spec.servers = (n + 1) / 2;
            add(spec);
          }
        }
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, GeneratedTest, testing::ValuesIn(GeneratedCases()),
                         [](const auto& test) { return test.param.Name(); });

TEST(TextTest, EveryAlgorithmIsAmongTheGenerated) {
  for (const Algorithm algorithm : kAlgorithms) {
    const auto cases = GeneratedCases();
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const GeneratedCase& each) {
      return each.spec.algorithm == algorithm && each.spec.world_size == 8;
    })) << NameOf(algorithm);
  }
}

TEST(TextTest, APingPongComesBackToo) {
  const Schedule schedule = *MakePingPong({3});
  const auto text = ParseSchedule(WriteSchedule(schedule, Collective::kBroadcast, 0));
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(text->schedule.ranks, schedule.ranks);
}

struct WrongCase {
  std::string name;
  std::string text;
  std::string error;
};
void PrintTo(const WrongCase& param, std::ostream* out) { *out << param.name; }
class WrongTextTest : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongTextTest, IsRefusedWithItsPlaceWhatWasExpectedAndAnExample) {
  EXPECT_THAT(ParseSchedule(GetParam().text),
              StatusIs(StatusCode::kInvalidArgument, GetParam().error));
}

WrongCase WrongMove(const std::string& name, const std::string& move, const std::string& error) {
  return {name, absl::StrCat("ranks 3\nchunks 3\nscratch 2\nrank 0\n", move, "\n"),
          absl::StrCat("5:", error)};
}

INSTANTIATE_TEST_SUITE_P(
    Moves, WrongTextTest,
    testing::Values(
        WrongMove("Unknown", "sned chunk 2 to 1",
                  "1: expected a move, \"rank\" or \"lane\"; a move's part is one of wait for, "
                  "recv, take, store in, fold into, send to, but \"sned\" stands there; for "
                  "example: take chunk 2, send to 1"),
        WrongMove("NoRank", "recv from x",
                  "11: expected a rank, a number from 0 to 2, but \"x\" stands there; for example: "
                  "recv from 2, add chunk 1, send to 1"),
        WrongMove("RankTooBig", "take chunk 1, send to 3",
                  "23: expected a rank, a number from 0 to 2, but \"3\""),
        WrongMove("Overflow", "recv from 99999999999", "11: expected a rank, a number from 0"),
        WrongMove("Negative", "recv from -1", "11: expected a rank, a number from 0"),
        WrongMove("NoPlace", "take 2, send to 1", "6: expected a place: \"chunk\", \"chunks\""),
        WrongMove("ChunkTooBig", "take chunk 3", "12: expected a chunk, a number from 0 to 2"),
        WrongMove("ScratchTooBig", "take scratch 2",
                  "14: expected a scratch chunk, a number from 0 to 1"),
        WrongMove("RangeBackwards", "take chunks 2..1",
                  "16: expected the last chunk, 2, but \"1\""),
        WrongMove("RangeOfOneWord", "take chunk 0..2",
                  "13: expected a comma or the end of the line, but \"..\""),
        WrongMove("HalfARange", "take chunks 0", "14: expected \"..\", but the line ends"),
        WrongMove("CountsDiffer", "take chunks 0..1, store in chunk 2",
                  "28: expected 2 chunks, as in this move's part before, but \"chunk\""),
        WrongMove("CountsDifferFromRecv", "recv 1 chunk from 1, store in chunks 0..1",
                  "31: expected 1 chunk, as in this move's part before"),
        WrongMove("AddWithoutRecv", "add chunk 1, send to 1",
                  "1: expected a move, \"rank\" or \"lane\""),
        WrongMove("TakeAfterRecv", "recv from 1, take chunk 1",
                  "14: expected the move's next part, one of add, store in, fold into, send to, "
                  "but \"take\""),
        WrongMove("WrongOrder", "take chunk 1, send to 1, recv from 2",
                  "26: expected the end of the line (a move's last part is \"send to\")"),
        WrongMove("StoreTwice", "take chunk 1, store in chunk 0, fold into chunk 2",
                  "33: expected the move's next part, one of send to, but \"fold\""),
        WrongMove("CommaAtTheEnd", "recv from 1,", "13: expected the move's next part"),
        WrongMove("NoComma", "recv from 1 add chunk 1", "13: expected a comma or the end"),
        WrongMove("WaitForNothing", "wait for lane 0",
                  "16: expected \"move\", but the line ends; for example: wait for lane 0 move 4"),
        WrongMove("WaitForLaneTooBig", "wait for lane 128 move 0", "15: expected a lane"),
        WrongMove("LaneOutOfOrder", "lane 1 channel 0",
                  "6: expected this rank's next lane, 0, but \"1\" stands there; for example: lane "
                  "0 channel 0"),
        WrongMove("ChannelTooBig", "lane 0 channel 128", "16: expected a channel, a number from"),
        WrongMove("RankTwice", "rank 0", "1: expected each rank once, but rank 0 began on line 4"),
        WrongMove("HeaderTooLate", "slots 3", "1: expected a move"),
        WrongMove("NotText", "\x01\xff", "1: expected a move, \"rank\" or \"lane\"; a move's")),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Headers, WrongTextTest,
    testing::Values(
        WrongCase{"Empty", "", "1:1: expected a line \"ranks\" before this, but the line ends"},
        WrongCase{"NoChunks", "ranks 3\nrank 0\n", "2:1: expected a line \"chunks\" before this"},
        WrongCase{"Unknown", "rnaks 3\n", "1:1: expected ranks, chunks, contributors, scratch"},
        WrongCase{"NoNumber", "ranks\n", "1:6: expected how many ranks, a number from 1 to 4096"},
        WrongCase{"Zero", "ranks 0\n", "1:7: expected how many ranks, a number from 1"},
        WrongCase{"TooMany", "ranks 4097\n", "1:7: expected how many ranks, a number from 1"},
        WrongCase{"Twice", "ranks 3\nranks 3\n", "2:1: expected each of the first lines once"},
        WrongCase{"MoreOnTheLine", "ranks 3 4\n", "1:9: expected the end of the line"},
        WrongCase{"Goal", "ranks 1\nchunks 1\ngoal sum\n",
                  "3:6: expected one of all_reduce, reduce, broadcast, reduce_scatter, all_gather, "
                  "barrier, but \"sum\""},
        WrongCase{"GoalWithoutRoot", "ranks 1\nchunks 1\ngoal broadcast\n",
                  "3:15: expected \"from\", but the line ends; for example: goal broadcast from 1"},
        WrongCase{"RootTooBig", "ranks 2\nchunks 1\ngoal reduce to 2\nrank 0\n",
                  "4:1: expected no more than ranks 2 allow (goal's rank)"},
        WrongCase{"ContributorsTooMany", "ranks 2\nchunks 1\ncontributors 3\nrank 0\n",
                  "4:1: expected no more than ranks 2 allow (contributors)"}),
    [](const auto& test) { return test.param.name; });

// A few words must not make the parser, or who runs what it gives, take gigabytes.
TEST(TextTest, WhatATextMayAskForIsBounded) {
  EXPECT_THAT(ParseSchedule("ranks 1024\nchunks 1024\nrank 0\n"), IsOk());
  EXPECT_THAT(ParseSchedule("ranks 1024\nchunks 1024\nscratch 1\nrank 0\n"),
              StatusIs(StatusCode::kResourceExhausted, "4: ranks x (chunks + scratch) is 1049600"));
  EXPECT_THAT(ParseSchedule("ranks 4096\nchunks 1048576\n"),
              StatusIs(StatusCode::kResourceExhausted, "ranks x (chunks + scratch)"));
  EXPECT_THAT(ParseSchedule("ranks 1\nchunks 40000\nrank 0\ntake chunks 0..32767\n"),
              StatusIs(StatusCode::kInvalidArgument, "at most 32767 chunks"));
}

}  // namespace
}  // namespace lockstep
