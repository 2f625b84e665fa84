// Failing collectives of every way: whoever calls something else, is missing or dies in the middle
// is named on every rank, within the timeout. One source for two tiers: both transports in full.
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
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

constexpr int64_t kExpiryMs = 300;    // where a timeout is expected
constexpr int64_t kPromptMs = 5'000;  // "at once", against a timeout of 10 s, on a busy machine
constexpr int kInputs = 4;

absl::Status AllReduce(Communicator* communicator, int64_t count, Dtype dtype = Dtype::kI64,
                       ReduceOp op = ReduceOp::kSum) {
  std::vector<int64_t> data(static_cast<size_t>(count), 1);
  return communicator->AllReduce(data.data(), count, dtype, op);
}

int64_t ElapsedMs(const Clock& clock, int64_t start_ns) {
  return (clock.NowNs() - start_ns) / kNsPerMs;
}

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

  // In its second call rank `odd` does something else than the others: every rank says so, and
  // what.
  template <typename Call>
  void ExpectDifference(int odd, const Call& call, const std::string& here,
                        const std::string& there) const {
    RankGroup group(Options(kExpiryMs));
    for (const absl::Status& status :
         group.Run([](int, Communicator& communicator) { return AllReduce(&communicator, 5); })) {
      EXPECT_THAT(status, IsOk());
    }
    const int64_t start_ns = group.clock().NowNs();
    for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
           return call(rank == odd, &communicator);
         })) {
      for (const std::string& part : {std::string("the calls differ"), here, there,
                                      AllBut(odd, group.n()), absl::StrCat("on rank ", odd)}) {
        EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, part));
      }
    }
    EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
  }
};

// CASES R01: tiny and large counts, at the root of a tree, in its middle and at a leaf.
TEST_P(WayFailureTest, ADifferentCountIsNamedWithItsRank) {
  for (const int odd : {0, 1, kInputs - 1}) {
    for (const int64_t count : {int64_t{1}, int64_t{30'000}}) {
      ExpectDifference(
          odd,
          [&](bool is_odd, Communicator* communicator) {
            return AllReduce(communicator, is_odd ? 2 * count : count);
          },
          absl::StrCat("count ", count, ", "), absl::StrCat("count ", 2 * count, ", "));
    }
  }
}

TEST_P(WayFailureTest, ADifferentReductionIsNamedWithItsRank) {
  ExpectDifference(
      2,
      [](bool is_odd, Communicator* communicator) {
        return AllReduce(communicator, 8, Dtype::kI64, is_odd ? ReduceOp::kMax : ReduceOp::kSum);
      },
      "(i64 sum, count 8", "(i64 max, count 8");
}

TEST_P(WayFailureTest, ADifferentDtypeIsNamedWithItsRank) {
  ExpectDifference(
      1,
      [](bool is_odd, Communicator* communicator) {
        return AllReduce(communicator, 8, is_odd ? Dtype::kBf16 : Dtype::kF16);
      },
      "(f16 sum, count 8", "(bf16 sum, count 8");
}

// CASES R02: from some call on one rank issues another operation.
TEST_P(WayFailureTest, AnotherOperationIsNamedWithItsRankAndNumber) {
  ExpectDifference(
      3,
      [](bool is_odd, Communicator* communicator) {
        int64_t value = 1;
        return is_odd ? communicator->Broadcast(&value, 1, Dtype::kI64, 0)
                      : AllReduce(communicator, 1);
      },
      "all_reduce #1 (i64 sum", "broadcast #1 (i64 root 0");
}

// A rank that only sums may be through without another one like it, and tells its next call.
TEST_P(WayFailureTest, AMissingRankIsNamedByAllOthers) {
  const int n = kInputs + std::get<Way>(GetParam()).spare();
  for (const int missing : kFullTier ? std::vector<int>{0, 1, n - 1} : std::vector<int>{n - 1}) {
    RankGroup group(Options(kExpiryMs));
    const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
      if (rank == missing) return absl::OkStatus();
      absl::Status status = AllReduce(&communicator, 1000);
      return status.ok() && rank >= kInputs ? AllReduce(&communicator, 1000) : status;
    });
    for (int rank = 0; rank < n; ++rank) {
      if (rank == missing) continue;
      const absl::Status& status = statuses[static_cast<size_t>(rank)];
      EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded,
                                   absl::StrCat("missing: rank ", missing, ".")));
      EXPECT_THAT(BlamedBy(status), ElementsAre(absl::StrCat("rank ", missing)));
    }
  }
}

// CASES R03. A rank that is through with the call has its right result and learns it in the next.
TEST_P(WayFailureTest, ARankThatDiesInTheMiddleIsNamedByAllSurvivors) {
  const Way way = std::get<Way>(GetParam());
  const int n = kInputs + way.spare();
  for (int dying = 0; dying < n; ++dying) {
    for (const int sends : {1, 5, 18}) {
      GroupOptions options = Options(10'000);
      options.limits.chunk_bytes = 1'000;
      options.dying_rank = dying;
      options.dying_sends = sends;
      RankGroup group(options);
      const int64_t start_ns = group.clock().NowNs();
      const std::vector<absl::Status> statuses = group.Run([](int, Communicator& communicator) {
        absl::Status status;
        for (int call = 0; status.ok() && call < 40; ++call) {
          status = AllReduce(&communicator, 1'500);
        }
        return status;
      });
      EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
      for (int rank = 0; rank < n; ++rank) {
        if (rank == dying) continue;
        const absl::Status& status = statuses[static_cast<size_t>(rank)];
        EXPECT_THAT(status,
                    StatusIs(StatusCode::kUnavailable, absl::StrCat("lost: rank ", dying, ".")));
        EXPECT_THAT(BlamedBy(status), ElementsAre(absl::StrCat("rank ", dying)));
      }
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
  if (kFullTier) return {Transport::kInProcess, Transport::kTcp};
  return {Transport::kInProcess};
}
INSTANTIATE_TEST_SUITE_P(All, WayFailureTest,
                         testing::Combine(testing::ValuesIn(FailingWays()),
                                          testing::ValuesIn(FailingTransports())),
                         WayName);

// Ranks that run different ways wait for messages that nobody sends; the timeout compares them.
TEST(MixedWaysTest, AreNamedWithTheirRanks) {
  for (const Transport transport : {Transport::kInProcess, Transport::kTcp}) {
    MonotonicClock clock;
    Abort abort;
    const Limits limits = TestLimits(kExpiryMs);
    std::vector<std::unique_ptr<Link>> links =
        transport == Transport::kTcp ? ConnectTcpLinks(4, 1, limits, clock, abort)
                                     : MakeInProcessLinks({.world_size = 4}, limits, clock, abort);
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
      statuses[r] = AllReduce(communicator.get(), 8);
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
