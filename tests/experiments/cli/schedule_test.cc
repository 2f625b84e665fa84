// `lockstep schedule`: what it prints for a ring of three is what is written here, in 80 columns;
// a text that is wrong is told where and why; every command of its help works.
#include "experiments/cli/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A file of the test's own, gone with the object.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(absl::StrCat(testing::TempDir(), "/schedule-", getpid(), ".txt")) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

ScheduleAnswer Show(const ScheduleArguments& arguments, const ShowOptions& options = {}) {
  const absl::StatusOr<ScheduleAnswer> answer = ShowSchedule(arguments, options);
  EXPECT_THAT(answer, IsOk());
  return answer.value_or(ScheduleAnswer());
}

ScheduleAnswer VerifyText(const std::string& text) {
  const TextFile file(text);
  const absl::StatusOr<ScheduleAnswer> answer = VerifySchedule({.what = file.path()});
  EXPECT_THAT(answer, IsOk());
  ScheduleAnswer found = answer.value_or(ScheduleAnswer());
  found.text = absl::StrReplaceAll(found.text, {{file.path(), "my.txt"}});
  return found;
}

std::string RingText(int32_t n) {
  return Show({.what = "ring", .ranks = n}, {.as_text = true}).text;
}

constexpr char kRingOfThree[] =
    R"(ring all_reduce, ranks 3, chunks 3, slots 2

A round is every move whose message was sent in an earlier round. A cell: how
many ranks' inputs are summed in what the rank holds of the chunk, '.': nothing;
'1>2': it holds one, and has sent on a sum of two; '1>': has sent what it holds.

after round 0, the first sends
chunk     0   1   2
elements  4   3   3
rank 0    1   1   1>
rank 1    1>  1   1
rank 2    1   1>  1

after round 1
chunk     0    1    2
elements  4    3    3
rank 0    1    1>2  1
rank 1    1    1    1>2
rank 2    1>2  1    1

after round 2
chunk     0   1   2
elements  4   3   3
rank 0    3>  1   1
rank 1    1   3>  1
rank 2    1   1   3>

after round 3
chunk     0   1   2
elements  4   3   3
rank 0    3   1   3>
rank 1    3>  3   1
rank 2    1   3>  3

after round 4
chunk     0  1  2
elements  4  3  3
rank 0    3  3  3
rank 1    3  3  3
rank 2    3  3  3

Additions, gr: the input of rank r, by element
  0-3: g0+(g1+g2)
  4-6: (g0+g2)+g1
  7-9: (g0+g1)+g2
Load (S: the bytes of the data)
  ranks 0..2 send 4 messages, 1.333 S, receive 4, 1.333 S
Longest chain: 4 messages, each sent after the one before came
)";

// CASES R62: 2(n-1) rounds of messages, uneven chunks.
TEST(ShowTest, ARingOfThree) {
  const ScheduleAnswer answer = Show({.what = "ring", .ranks = 3}, {.elements = 10});
  EXPECT_EQ(answer.text, kRingOfThree);
  EXPECT_EQ(answer.exit_code, 0);
}

TEST(ShowTest, ARingHasTwiceAsManyRoundsAsNeighbours) {
  for (const int32_t n : {2, 3, 5, 8}) {
    const std::string text = Show({.what = "ring", .ranks = n}).text;
    EXPECT_THAT(text, HasSubstr(absl::StrCat("after round ", 2 * (n - 1), "\n")));
    EXPECT_THAT(text, Not(HasSubstr(absl::StrCat("after round ", 2 * (n - 1) + 1))));
  }
}

TEST(ShowTest, OneRankHasNothingToMove) {
  const std::string text = Show({.what = "ring", .ranks = 1}).text;
  EXPECT_THAT(text, AllOf(HasSubstr("\nnothing moves\nchunk     0\nrank 0    1\n"),
                          HasSubstr("rank 0 sends 0 messages, 0 S, receives 0, 0 S\n"),
                          HasSubstr("Longest chain: 0 messages")));
}

// CASES R62.
TEST(ShowTest, EveryAlgorithmFitsInEightyColumnsUpToEightRanks) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (const int32_t n : {1, 2, 3, 5, 8}) {
      ScheduleArguments arguments{.what = NameOf(algorithm), .ranks = n};
      if (algorithm == Algorithm::kPsExchange) {
        if (n == 1) continue;
        arguments.servers = n / 2;
      }
      const ScheduleAnswer answer = Show(arguments, {.elements = 100000});
      EXPECT_EQ(answer.exit_code, 0);
      for (const auto& line : absl::StrSplit(answer.text, '\n')) {
        EXPECT_LE(line.size(), 80U) << NameOf(algorithm) << " " << n << ": " << line;
      }
      EXPECT_THAT(answer.text, Not(HasSubstr("left out"))) << NameOf(algorithm) << " " << n;
    }
  }
}

TEST(ShowTest, WhatDoesNotFitIsLeftOutAndSaidSo) {
  const std::string text = Show({.what = "ring", .ranks = 40}).text;
  EXPECT_THAT(text, AllOf(HasSubstr("(ranks 16..39 are left out)\n"),
                          HasSubstr("(rounds 64..77 are left out)\n\nafter round 78\n"),
                          HasSubstr("..39 are left out)\n")));
  EXPECT_THAT(Show({.what = "ring", .ranks = 9, .channels = 2}).text,
              HasSubstr("\n  (2 more are left out)\nLoad"));
  for (const auto& line : absl::StrSplit(text.substr(0, text.find("Additions")), '\n')) {
    EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(ShowTest, OtherCollectivesToo) {
  const std::string text =
      Show({.what = "tree", .ranks = 4, .collective = "reduce", .root = 2}).text;
  EXPECT_THAT(text, StartsWith("tree reduce, ranks 4"));
  EXPECT_THAT(text, Not(HasSubstr("Additions")));
  EXPECT_EQ(Show({.what = "ring", .ranks = 4, .collective = "reduce_scatter"}).exit_code, 0);
  EXPECT_EQ(Show({.what = "recursive_doubling", .ranks = 4, .collective = "barrier"}).exit_code, 0);
}

TEST(ShowTest, AWrongScheduleIsShownUntilItStandsStill) {
  const TextFile file("ranks 2\nchunks 1\nrank 0\ntake chunk 0, send to 1\nrank 1\n");
  const ScheduleAnswer answer = Show({.what = file.path()});
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.text, AllOf(HasSubstr("rank 0    1>\n"), HasSubstr("\nwrong: "),
                                 HasSubstr(":4: rank 0 lane 0 move 0: unread message: 1 messages "
                                           "to rank 1")));
}

TEST(VerifyScheduleTest, WhatShowWritesIsRight) {
  const ScheduleAnswer answer = VerifyText(RingText(3));
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_EQ(answer.text,
            "right: my.txt all_reduce, ranks 3, chunks 3, slots 2: 15 moves, 12 messages, longest "
            "chain 4\n");
  const auto generated = VerifySchedule({.what = "ring", .ranks = 3});
  ASSERT_THAT(generated, IsOk());
  EXPECT_THAT(generated->text, StartsWith("right: ring all_reduce, ranks 3"));
}

// Line 7 is rank 0's first move of a generated ring.
struct MistakeCase {
  std::string name;
  std::string right;
  std::string wrong;
  std::string answer;
};
void PrintTo(const MistakeCase& param, std::ostream* out) { *out << param.name; }
class MistakeTest : public testing::TestWithParam<MistakeCase> {};

// CASES R61: the first wrong move, with its place and what it does.
TEST_P(MistakeTest, IsToldWhereAndWhy) {
  const std::string text = absl::StrReplaceAll(RingText(3), {{GetParam().right, GetParam().wrong}});
  ASSERT_NE(text, RingText(3));
  const ScheduleAnswer answer = VerifyText(text);
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.text, StartsWith(GetParam().answer));
}

INSTANTIATE_TEST_SUITE_P(
    Ring, MistakeTest,
    testing::Values(
        MistakeCase{"WrongChunk", "recv from 2, add chunk 1, send to 1",
                    "recv from 2, add chunk 2, send to 1",
                    "wrong: my.txt:8: rank 0 lane 0 move 1: different chunks: folds chunk 2 into a "
                    "message that holds chunk 1\n  recv from 2, add chunk 2, send to 1\n"},
        MistakeCase{"WrongNeighbour", "recv from 2, store in chunk 1",
                    "recv from 1, store in chunk 1",
                    "wrong: my.txt:11: rank 0 lane 0 move 4: deadlock: chain: rank 0 lane 0 move 4 "
                    "waits for a message from rank 1, and no lane will provide it\n"},
        MistakeCase{"LostLastChunk", "  recv from 2, store in chunk 1\n", "",
                    "wrong: my.txt:23: rank 2 lane 0 move 3: unread message: 1 messages to rank 0"},
        MistakeCase{"TakesTwice", "recv from 2, add chunk 0, store in chunk 0",
                    "recv from 2, add chunk 0, fold into chunk 0",
                    "wrong: my.txt:9: rank 0 lane 0 move 2: double count: folds ranks {0} of chunk "
                    "0 a second time\n"},
        MistakeCase{"OverwritesInsteadOfAdding",
                    "recv from 2, add chunk 0, store in chunk 0, send to 1",
                    "recv from 2, store in chunk 0, send to 1",
                    "wrong: my.txt:9: rank 0 lane 0 move 2: wrong final value: chunk 0 ends with "
                    "ranks {1, 2} of chunk 0, expected ranks {0, 1, 2}\n"},
        MistakeCase{"OneSlot", "slots 2", "slots 1",
                    "wrong: my.txt:8: rank 0 lane 0 move 1: deadlock: cycle with 1 slots"}),
    [](const auto& test) { return test.param.name; });

TEST(VerifyScheduleTest, AnEmptyPlaceIsNamed) {
  const ScheduleAnswer answer = VerifyText(
      "ranks 2\nchunks 1\nscratch 1\nrank 0\ntake scratch 0, send to 1\nrank 1\nrecv from 0\n");
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.text, StartsWith("wrong: my.txt:5: rank 0 lane 0 move 0: empty value: reads "
                                      "chunk 1, which is empty\n  take scratch 0, send to 1\n"));
}

TEST(VerifyScheduleTest, ATextThatIsNoScheduleIsBadUsage) {
  const TextFile file("ranks 3\nchunks 3\nrank 0\nsned chunk 2 to 1\n");
  EXPECT_THAT(VerifySchedule({.what = file.path()}),
              StatusIs(StatusCode::kInvalidArgument,
                       absl::StrCat(file.path(), ":4:1: expected a move, \"rank\" or \"lane\"")));
}

TEST(ScheduleSourceTest, WhatIsNoScheduleIsRefusedWithWhatThereIs) {
  const auto refused = [](const char* what) {
    return StatusIs(StatusCode::kInvalidArgument, what);
  };
  EXPECT_THAT(FindSchedule({.what = "rign", .ranks = 3}),
              refused("'rign' is no algorithm and no file; there are ring, naive, tree, "
                      "ps_exchange, star, double_tree, halving_doubling"));
  EXPECT_THAT(FindSchedule({.what = "auto", .ranks = 3}), refused("'auto' is no algorithm"));
  EXPECT_THAT(FindSchedule({.what = "ring"}), refused("--ranks is needed"));
  EXPECT_THAT(FindSchedule({.what = "ring", .ranks = 3, .collective = "sum"}),
              refused("--collective 'sum' does not exist; there are all_reduce, reduce"));
  EXPECT_THAT(FindSchedule({.what = "ps_exchange", .ranks = 3, .servers = 1, .placement = "here"}),
              refused("--placement 'here' does not exist; there are spare, colocated, split"));
  EXPECT_THAT(FindSchedule({.what = "ring", .ranks = 3, .servers = 1}), refused("servers"));
  const TextFile file("ranks 3\nchunks 3\n");
  EXPECT_THAT(FindSchedule({.what = file.path(), .ranks = 4}), refused("says ranks 3, --ranks 4"));
  EXPECT_THAT(FindSchedule({.what = file.path(), .channels = 2}), refused("a file says all"));
  EXPECT_THAT(FindSchedule({.what = file.path(), .ranks = 3}), IsOk());
  EXPECT_THAT(FindSchedule({.what = testing::TempDir()}), refused(""));
}

}  // namespace
}  // namespace lockstep
