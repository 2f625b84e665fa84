#include "experiments/bench/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

TEST(ProtocolTest, ATurnReadsBack) {
  Turn turn;
  turn.algorithm = "halving_doubling";
  turn.count = int64_t{1} << 40;
  turn.dtype = Dtype::kBf16;
  turn.op = ReduceOp::kAvg;
  turn.warmup = 3;
  turn.operations = 7;
  turn.check = true;
  const auto read = ParseTurn(ToLine(turn));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(ToLine(*read), ToLine(turn));
  EXPECT_EQ(read->count, turn.count);
  EXPECT_TRUE(read->check);
}

TEST(ProtocolTest, AReportReadsBackDigitByDigit) {
  TurnReport report;
  report.times_ns = {1, 22, 333};
  report.cpu_ns = 5;
  report.sent_bytes = 123'456'789.25;
  report.sent_messages = 14;
  report.correct = false;
  report.congestion = "bbr+cubic";
  report.choice = "auto: ring, since\nit is faster";
  const auto read = ParseReport(ToLine(report));
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(read->times_ns, ElementsAre(1, 22, 333));
  EXPECT_EQ(read->sent_bytes, report.sent_bytes);
  EXPECT_FALSE(read->correct);
  EXPECT_EQ(read->congestion, "bbr+cubic");
  EXPECT_EQ(read->choice, "auto: ring, since it is faster");
}

TEST(ProtocolTest, AnErrorKeepsCodeTextAndWhoIsToBlame) {
  const absl::Status error =
      Blame(absl::DeadlineExceededError("missing:\nrank 2"), {"rank 2", "rank 3"});
  const absl::Status read = ErrorOf(ToLine(error));
  EXPECT_EQ(read.code(), error.code());
  EXPECT_EQ(read.message(), error.message());
  EXPECT_THAT(BlamedBy(read), ElementsAre("rank 2", "rank 3"));
  EXPECT_THAT(BlamedBy(ErrorOf(ToLine(absl::InternalError("x")))), ElementsAre());
  EXPECT_THAT(ErrorOf("done and well"), IsOk());
}

TEST(ProtocolTest, LinkWordsReadBack) {
  const auto read = ParseLink(ToLine(LinkWords{9123.5, 0.125, 55'000.25, 66'000, 4096}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->alpha_ns, 9123.5);
  EXPECT_EQ(read->beta_ns_per_byte, 0.125);
  EXPECT_EQ(read->crowd_empty_ns, 55'000.25);
  EXPECT_EQ(read->crowd_large_ns, 66'000);
  EXPECT_EQ(read->crowd_bytes, 4096);
  EXPECT_EQ(ParseLink("Open MPI v4.1.4"), std::nullopt);
}

class BadLineTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    All, BadLineTest,
    testing::Values("", "turn", "turn algorithm=ring count=x",
                    "turn algorithm=ring count=1 dtype=f8 op=sum warmup=1 operations=1 check=0",
                    "turn algorithm=ring count=1 dtype=f32 op=sum warmup=1 operations=0 check=0",
                    "done cpu_ns=1"));
TEST_P(BadLineTest, IsNoTurnAndNoReport) {
  EXPECT_THAT(ParseTurn(GetParam()), StatusIs(absl::StatusCode::kInvalidArgument, "cannot read"));
  EXPECT_THAT(ParseReport(GetParam()), StatusIs(absl::StatusCode::kInvalidArgument, "cannot read"));
}

}  // namespace
}  // namespace lockstep
