// Failing collectives of every way: whoever calls something else, is missing or dies in the middle
// is named on every rank, within the timeout. One source for two tiers: all transports in full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/host/executor.h"
#include "tests/allreduce/failing.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int kInputs = 4;

std::string AllBut(int rank, int n) {
  std::vector<std::string> others;
  for (int other = 0; other < n; ++other) {
    if (other != rank) others.push_back(absl::StrCat(other));
  }
  return absl::StrCat("on ranks ", absl::StrJoin(others, ", "));
}

class WayFailureTest : public testing::TestWithParam<std::tuple<Way, Transport>> {
 protected:
  GroupOptions Options(int64_t sync_timeout_ms) const {
    GroupOptions options = OptionsOf(std::get<Way>(GetParam()), kInputs);
    options.transport = std::get<Transport>(GetParam());
    options.limits = TestLimits(sync_timeout_ms);
    return options;
  }

  // In its second call rank `odd` does something else than the others.
  void ExpectOdd(int odd, const GroupCall& usual, const GroupCall& odd_call,
                 const std::string& here, const std::string& there) const {
    const GroupOptions options = Options(kExpiryMs);
    ExpectDifference(options, {usual, odd, odd_call}, {here, there, AllBut(odd, options.n)});
  }
};

// A call of all ranks.
GroupCall AllReduceOf(int64_t count, Dtype dtype = Dtype::kI64, ReduceOp op = ReduceOp::kSum) {
  return [=](Communicator* communicator) { return AllReduceOnes(communicator, count, dtype, op); };
}

// CASES R01: tiny and large counts, at the root of a tree, in its middle and at a leaf.
TEST_P(WayFailureTest, ADifferentCountIsNamedWithItsRank) {
  for (const int odd : {0, 1, kInputs - 1}) {
    for (const int64_t count : {int64_t{1}, int64_t{30'000}}) {
      ExpectOdd(odd, AllReduceOf(count), AllReduceOf(2 * count),
                absl::StrCat("count ", count, ", "), absl::StrCat("count ", 2 * count, ", "));
    }
  }
}

TEST_P(WayFailureTest, ADifferentReductionIsNamedWithItsRank) {
  ExpectOdd(2, AllReduceOf(8), AllReduceOf(8, Dtype::kI64, ReduceOp::kMax), "(i64 sum, count 8",
            "(i64 max, count 8");
}

TEST_P(WayFailureTest, ADifferentDtypeIsNamedWithItsRank) {
  ExpectOdd(1, AllReduceOf(8, Dtype::kF16), AllReduceOf(8, Dtype::kBf16), "(f16 sum, count 8",
            "(bf16 sum, count 8");
}

// CASES R02: from some call on one rank issues another operation.
TEST_P(WayFailureTest, AnotherOperationIsNamedWithItsRankAndNumber) {
  const GroupCall broadcast = [](Communicator* communicator) {
    int64_t value = 1;
    return communicator->Broadcast(&value, 1, Dtype::kI64, 0);
  };
  ExpectOdd(3, AllReduceOf(1), broadcast, "all_reduce #1 (i64 sum", "broadcast #1 (i64 root 0");
}

// A rank that only sums may be through without another one like it, and tells its next call. The
// groups wait for their timeout side by side.
TEST_P(WayFailureTest, AMissingRankIsNamedByAllOthers) {
  const int n = kInputs + std::get<Way>(GetParam()).spare();
  const std::vector<int> all_missing =
      kFullTier ? std::vector<int>{0, 1, n - 1} : std::vector{n - 1};
  OnEachRank(static_cast<int>(all_missing.size()), [&](int i) {
    const int missing = all_missing[static_cast<size_t>(i)];
    RankGroup group(Options(kExpiryMs));
    const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
      if (rank == missing) return absl::OkStatus();
      absl::Status status = AllReduceOnes(&communicator, 1000);
      return status.ok() && rank >= kInputs ? AllReduceOnes(&communicator, 1000) : status;
    });
    ExpectNamed(statuses, missing, StatusCode::kDeadlineExceeded);
  });
}

// CASES R03.
TEST_P(WayFailureTest, ARankThatDiesInTheMiddleIsNamedByAllSurvivors) {
  GroupOptions options = Options(10'000);
  options.limits.chunk_bytes = 1'000;
  for (int dying = 0; dying < options.n; ++dying) {
    for (const int sends : {1, 5, 18}) {
      ExpectDeathIsNamed(options, dying, sends, AllReduceOf(1'500));
    }
  }
}

std::string WayName(const testing::TestParamInfo<std::tuple<Way, Transport>>& info) {
  return absl::StrCat(NameOf(std::get<Way>(info.param)), NameOf(std::get<Transport>(info.param)));
}
// failure_test.cc has the ring's in quick.
std::vector<Way> FailingWays() {
  if (kFullTier) return AllWays();
  return {{Algorithm::kNaive},
          {Algorithm::kTree},
          {Algorithm::kHalvingDoubling},
          {Algorithm::kDirect},
          {Algorithm::kPsExchange, 2}};
}
std::vector<Transport> FailingTransports() {
  if (kFullTier) return {Transport::kInProcess, Transport::kTcp, Transport::kShm};
  return {Transport::kInProcess};
}
INSTANTIATE_TEST_SUITE_P(All, WayFailureTest,
                         testing::Combine(testing::ValuesIn(FailingWays()),
                                          testing::ValuesIn(FailingTransports())),
                         WayName);

// Ranks that run different ways wait for messages that nobody sends; the timeout compares them.
TEST(MixedWaysTest, AreNamedWithTheirRanks) {
  for (const Transport transport : {Transport::kInProcess, Transport::kTcp, Transport::kShm}) {
    MonotonicClock clock;
    Abort abort;
    const Limits limits = TestLimits(kExpiryMs);
    std::vector<std::unique_ptr<Link>> links = MakeLinks(transport, 4, 1, limits, clock, abort);
    std::vector<absl::Status> statuses(4);
    const std::vector<Way> ways = {{Algorithm::kRing},
                                   {Algorithm::kTree},
                                   {Algorithm::kPsExchange, 1},
                                   {Algorithm::kPsExchange, 2}};
    OnEachRank(4, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      CommunicatorOptions options;
      options.algorithm = ways[r].algorithm;
      options.servers = ways[r].servers;
      options.limits = limits;
      const auto communicator = MakeHostCommunicator(std::move(links[r]), clock, options);
      statuses[r] = AllReduceOnes(communicator.get(), 8);
    });
    for (const absl::Status& status : statuses) {
      const std::vector<std::string> texts = {"ring, 1 channel", "tree, 1 channel",
                                              "ps_exchange, 1 server, 1 channel",
                                              "ps_exchange, 2 servers, 1 channel"};
      for (size_t rank = 0; rank < texts.size(); ++rank) {
        const std::string part = absl::StrCat("count 8, ", texts[rank], ", tiles of ", kTileBytes,
                                              " bytes) on rank ", rank);
        EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, part));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
