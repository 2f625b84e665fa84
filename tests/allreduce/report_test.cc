// Failure reports: what goes over the wire comes back, nonsense doesn't, and an explanation says
// the heaviest cause first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "allreduce/host/failure.h"
#include "allreduce/transport/link.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Not;

FailureReport Report(const absl::Status& cause) {
  FailureReport report;
  report.call.count = 8;
  report.elapsed_ms = 401;
  report.cause = cause;
  return report;
}

FailureReport Answer() {
  FailureReport report = Report(absl::AbortedError("rank 0 reports a failure"));
  report.answers = true;
  return report;
}

FailureView View(std::vector<std::optional<FailureReport>> reports) {
  FailureView view;
  view.elapsed_ms = 450;
  view.sync_timeout_ms = 400;
  view.lost.assign(reports.size(), 0);
  view.reports = std::move(reports);
  return view;
}

TEST(ReportTest, ComesBackAsItWasSent) {
  FailureReport report = Report(absl::UnavailableError("lost"));
  report.call.sequence = 5;
  report.waiting_for = {1, 3};
  report.lost = {2};
  report.answers = true;
  const auto decoded = DecodeReport(EncodeReport(report), 4);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_TRUE(decoded->call == report.call);
  EXPECT_EQ(decoded->elapsed_ms, report.elapsed_ms);
  EXPECT_EQ(decoded->waiting_for, report.waiting_for);
  EXPECT_EQ(decoded->lost, report.lost);
  EXPECT_EQ(decoded->cause, report.cause);
  EXPECT_TRUE(decoded->answers);
}

TEST(ReportTest, IsCutToItsLimit) {
  FailureReport report = Report(absl::UnavailableError(std::string(5'000, 'x')));
  report.waiting_for.resize(1'000);
  std::iota(report.waiting_for.begin(), report.waiting_for.end(), 0);
  const std::string bytes = EncodeReport(report);
  EXPECT_LE(bytes.size(), kReportBytesMax);
  const auto decoded = DecodeReport(bytes, 1'000);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->waiting_for.size(), 32U);
  EXPECT_EQ(decoded->cause.message().size(), 384U);
}

TEST(ReportTest, NonsenseIsNoReport) {
  EXPECT_FALSE(DecodeReport("", 4).has_value());
  const std::string good = EncodeReport(Report(absl::UnavailableError("lost")));
  EXPECT_TRUE(DecodeReport(good, 4).has_value());
  EXPECT_FALSE(DecodeReport(good.substr(1), 4).has_value());
  // Whatever single byte is damaged, nothing dies and no list leaves its range.
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = '\xff';
    const auto decoded = DecodeReport(bad, 4);
    if (!decoded.has_value()) continue;
    for (const int rank : decoded->lost) EXPECT_LT(rank, 4);
    EXPECT_FALSE(ToString(decoded->call).empty());
  }
}

// Whatever numbers a peer sends for what is named here, there is a text.
TEST(CallTest, EveryByteHasAText) {
  for (int byte = 0; byte < 256; ++byte) {
    CallDescription call;
    call.operation = static_cast<Operation>(byte);
    call.dtype = static_cast<Dtype>(byte);
    call.op = static_cast<ReduceOp>(byte);
    call.algorithm = static_cast<Algorithm>(byte);
    EXPECT_THAT(ToString(call), HasSubstr(", count 0, ")) << byte;
  }
}

TEST(CallTest, TextsNameWhatCallsDifferIn) {
  CallDescription call;
  call.sequence = 3;
  call.count = 9;
  call.tile_bytes = 64;
  call.dtype = Dtype::kBf16;
  call.op = ReduceOp::kMax;
  call.algorithm = Algorithm::kPsExchange;
  call.servers = 2;
  EXPECT_EQ(
      ToString(call),
      "all_reduce #3 (bf16 max, count 9, ps_exchange, 2 servers, 1 channel, tiles of 64 bytes)");
  call.operation = Operation::kBroadcast;
  call.root = 1;
  call.servers = 1;
  call.channels = 2;
  EXPECT_EQ(ToString(call),
            "broadcast #3 (bf16 root 1, count 9, ps_exchange, 1 server, 2 channels, tiles of 64 "
            "bytes)");
  call.operation = Operation::kPingPong;
  call.algorithm = Algorithm::kRing;
  call.servers = 0;
  EXPECT_EQ(ToString(call), "ping_pong #3 (bf16, count 9, ring, 2 channels, tiles of 64 bytes)");
  call.operation = Operation::kReduce;
  call.placement = Placement::kSplit;
  call.group = 0xabc;
  EXPECT_EQ(
      ToString(call),
      "reduce #3 of group 0000000000000abc (bf16 max root 1, count 9, ring, split, 2 channels, "
      "tiles of 64 bytes)");
  call.operation = Operation::kGroup;
  call.list = 0x12;
  call.group = 0;
  call.placement = Placement::kSpare;
  call.group_size = 4;
  EXPECT_EQ(
      ToString(call),
      "group #3 (bf16 ranks 0000000000000012, count 9, ring, groups of 4, 2 channels, tiles of "
      "64 bytes)");
}

// Two groups of one link are told apart by what made them; none is the whole link's 0.
TEST(CallTest, GroupsHaveFingerprintsOfTheirOwn) {
  CallDescription creation;
  creation.operation = Operation::kGroup;
  creation.list = FingerprintOfRanks({0, 1});
  const uint64_t first = FingerprintOfGroup(creation);
  EXPECT_NE(first, 0U);
  creation.sequence = 1;
  EXPECT_NE(FingerprintOfGroup(creation), first);
  EXPECT_NE(FingerprintOfRanks({0, 1}), FingerprintOfRanks({1, 0}));
}

// Each field is part of what is compared and hashed.
TEST(CallTest, ADifferenceInAnyByteShows) {
  const CallDescription call;
  for (size_t byte = 0; byte < sizeof(call); ++byte) {
    CallDescription other;
    std::array<std::byte, sizeof(call)> bytes{};
    std::memcpy(bytes.data(), &call, sizeof(call));
    bytes[byte] ^= std::byte{1};
    std::memcpy(&other, bytes.data(), sizeof(other));
    EXPECT_FALSE(call == other) << byte;
    EXPECT_NE(FingerprintOf(call), FingerprintOf(other)) << byte;
  }
}

TEST(ExplainTest, NamesTheMissingWithOperationSequenceAndWait) {
  const absl::Status status = Explain(
      View({Report(absl::DeadlineExceededError("x")), std::nullopt, Answer(), std::nullopt}));
  EXPECT_EQ(
      status.message(),
      "all_reduce #0 (f32 sum, count 8, ring, 1 channel, tiles of 0 bytes), rank 0 of 4: failed "
      "after 450 ms (limits.sync_timeout_ms = 400): missing: ranks 1, 3. No rank has a result; "
      "the group is dead, rebuild it");
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
}

TEST(ExplainTest, AMismatchIsHeavierThanALossAndBothAreNamed) {
  FailureReport other = Report(absl::InvalidArgumentError("x"));
  other.call.count = 9;
  FailureView view = View({Answer(), other, std::nullopt});
  view.lost[2] = 1;
  const absl::Status status = Explain(view);
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "count 8, ring"));
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "count 9, ring"));
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "lost: rank 2"));
}

// CASES R02: a line a rank, the first that differs from most marked.
TEST(ExplainTest, AMismatchListsEveryRankAndMarksTheFirstThatDiffers) {
  FailureReport other = Report(absl::InvalidArgumentError("x"));
  other.call.operation = Operation::kBroadcast;
  other.call.root = 0;
  const absl::Status status = Explain(View({Answer(), Answer(), other, std::nullopt, other}));
  const std::string usual = "all_reduce #0 (f32 sum, count 8, ring, 1 channel, tiles of 0 bytes)";
  const std::string odd = "broadcast #0 (f32 root 0, count 8, ring, 1 channel, tiles of 0 bytes)";
  EXPECT_THAT(status,
              StatusIs(StatusCode::kInvalidArgument,
                       "rebuild it\n  rank 0: " + usual + "\n  rank 1: " + usual +
                           "\n> rank 2: " + odd + "\n  rank 3: no report\n  rank 4: " + odd));
}

TEST(ExplainTest, LongTablesAreCutButShowTheMarkedRank) {
  std::vector<std::optional<FailureReport>> reports(100, Answer());
  reports[80]->call.count = 9;
  reports[80]->cause = absl::InvalidArgumentError("x");
  const std::string message(Explain(View(reports)).message());
  EXPECT_THAT(message, HasSubstr("\n  rank 63: "));
  EXPECT_THAT(message, Not(HasSubstr("\n  rank 64: ")));
  EXPECT_THAT(message, HasSubstr("\n> rank 80: "));
  EXPECT_THAT(message, HasSubstr("\n  and 35 more ranks"));
}

// Rank 0's row waits for its own partner; what ended it is in another group, where rank 3 is
// missing.
TEST(ExplainTest, AFailureOfAnotherGroupNamesWhoIsMissingThere) {
  FailureReport own = Answer();
  own.call.group = 1;
  FailureReport first = Report(absl::DeadlineExceededError("x"));
  first.call.group = 2;
  first.waiting_for = {3};
  FailureView view = View({own, std::nullopt, first, std::nullopt});
  view.expected = {1, 1, 0, 0};
  const absl::Status status = Explain(view);
  EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded,
                               "another group over the same link failed first: all_reduce #0 of "
                               "group 0000000000000002"));
  EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded, "on rank 2; missing: rank 3. "));
}

TEST(ExplainTest, OnlyMembersOfAGroupAreMissed) {
  FailureReport own = Report(absl::DeadlineExceededError("x"));
  own.call.group = 1;
  FailureView view = View({own, std::nullopt, std::nullopt, std::nullopt});
  view.expected = {1, 0, 1, 0};
  EXPECT_THAT(Explain(view), StatusIs(StatusCode::kDeadlineExceeded, "missing: rank 2."));
}

// Same sequence number in two groups is no mismatch; a message that did not fit shows that they
// met.
TEST(ExplainTest, CallsOfTwoGroupsDifferOnlyWhereAMessageDidNotFit) {
  for (const bool met : {false, true}) {
    FailureReport own = Report(met ? absl::InvalidArgumentError("belongs to another call")
                                   : absl::DeadlineExceededError("x"));
    FailureReport other = Answer();
    other.call.group = 1;
    const absl::Status status = Explain(View({own, other}));
    EXPECT_THAT(status, StatusIs(met ? StatusCode::kInvalidArgument : StatusCode::kDeadlineExceeded,
                                 met ? "the calls differ: all_reduce #0 ("
                                     : "ranks wait in calls of different groups: all_reduce #0 ("));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("all_reduce #0 of group 0000000000000001"));
  }
}

TEST(ExplainTest, RanksOneCallApartAreNoMismatch) {
  FailureReport ahead = Report(absl::UnavailableError("x"));
  ahead.call.sequence = 1;
  ahead.call.count = 9;
  FailureView view = View({Answer(), ahead, std::nullopt});
  view.lost[2] = 1;
  const absl::Status status = Explain(view);
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable, "lost: rank 2"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("differ")));
}

TEST(ExplainTest, ALossThatOnlyAnotherRankSawIsBelieved) {
  FailureReport saw = Report(absl::UnavailableError("x"));
  saw.lost = {2};
  EXPECT_THAT(Explain(View({Answer(), saw, std::nullopt})),
              StatusIs(StatusCode::kUnavailable, "lost: rank 2."));
}

TEST(ExplainTest, WhoReportsIsNeitherLostNorMissing) {
  FailureReport saw = Report(absl::DeadlineExceededError("x"));
  saw.lost = {2};
  saw.waiting_for = {2};
  const absl::Status status = Explain(View({Answer(), saw, Answer()}));
  EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded,
                               "data did not arrive: rank 1 waited 401 ms for rank 2."));
}

}  // namespace
}  // namespace lockstep
