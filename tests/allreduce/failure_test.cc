// Failing collectives: never a hang, never a result on some ranks only, and every rank says the
// same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/allreduce/failing.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class FailureTest : public testing::TestWithParam<Transport> {
 protected:
  GroupOptions Options(int n, int64_t sync_timeout_ms = 10'000) const {
    return {n, GetParam(), 1, TestLimits(sync_timeout_ms)};
  }
};

std::string MessageOf(const absl::Status& status) { return absl::StrCat(status.message()); }

// CASES R04: one rank never calls.
TEST_P(FailureTest, AMissingRankIsNamedByAllOthersWithinTheTimeout) {
  RankGroup group(Options(4, kExpiryMs));
  std::vector<int64_t> elapsed_ms(4, 0);
  const int64_t start_ns = group.clock().NowNs();
  const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
    if (rank == 2) {
      return absl::DeadlineExceededError("all_reduce #0 missing: rank 2. failed after");
    }
    absl::Status status = AllReduceOnes(&communicator, 5);
    elapsed_ms[static_cast<size_t>(rank)] = ElapsedMs(group.clock(), start_ns);
    return status;
  });
  ExpectAll(statuses, StatusCode::kDeadlineExceeded,
            {"all_reduce #0", "missing: rank 2.", "failed after"});
  for (const int rank : {0, 1, 3}) {
    EXPECT_GE(elapsed_ms[static_cast<size_t>(rank)], kExpiryMs);
    EXPECT_LT(elapsed_ms[static_cast<size_t>(rank)], 5 * kExpiryMs);
  }
}

// Rank 2 calls when the others have given up: it learns so at once, and so does every later call.
TEST_P(FailureTest, ALateCallerFailsAtOnceAndTheGroupStaysDead) {
  RankGroup group(Options(3, kExpiryMs));
  std::vector<absl::Status> first = group.Run([&](int rank, Communicator& communicator) {
    return rank == 2 ? absl::OkStatus() : AllReduceOnes(&communicator, 5);
  });
  const int64_t start_ns = group.clock().NowNs();
  first[2] = AllReduceOnes(&group.at(2), 5);
  EXPECT_LT(ElapsedMs(group.clock(), start_ns), kExpiryMs);
  ExpectAll(first, StatusCode::kDeadlineExceeded, {"all_reduce #0"});
  EXPECT_THAT(MessageOf(first[2]), HasSubstr("rank 0 waited "));
  const std::vector<absl::Status> second =
      group.Run([&](int, Communicator& communicator) { return AllReduceOnes(&communicator, 5); });
  EXPECT_EQ(second, first);
}

// Root has sent everything long before: only the closing ring tells it that a rank never came.
TEST_P(FailureTest, AMissingRankFailsABroadcastOnItsRootToo) {
  RankGroup group(Options(3, kExpiryMs));
  const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
    int64_t value = rank;
    return rank == 2 ? absl::DeadlineExceededError("broadcast #0 (i64 root 0 missing: rank 2.")
                     : communicator.Broadcast(&value, 1, Dtype::kI64, 0);
  });
  ExpectAll(statuses, StatusCode::kDeadlineExceeded,
            {"broadcast #0 (i64 root 0", "missing: rank 2."});
}

TEST_P(FailureTest, DifferentCountsAreNamedOnEveryRank) {
  for (const int64_t count : {int64_t{1}, int64_t{300'000}}) {
    RankGroup group(Options(4));
    const int64_t start_ns = group.clock().NowNs();
    ExpectAll(group.Run([&](int rank, Communicator& communicator) {
      return AllReduceOnes(&communicator, rank == 2 ? count + 1 : count);
    }),
              StatusCode::kInvalidArgument,
              {"the calls differ", absl::StrCat("count ", count, ", "),
               absl::StrCat("count ", count + 1, ", "), "on ranks 0, 1, 3", "on rank 2"});
    EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
  }
}

TEST_P(FailureTest, DifferentDtypesAreNamedOnEveryRank) {
  RankGroup group(Options(3));
  ExpectAll(group.Run([&](int rank, Communicator& communicator) {
    return AllReduceOnes(&communicator, 8, rank == 0 ? Dtype::kF32 : Dtype::kI64);
  }),
            StatusCode::kInvalidArgument,
            {"all_reduce #0 (f32 sum, count 8", "on rank 0", "(i64 sum", "on ranks 1, 2"});
}

TEST_P(FailureTest, AnotherOrderOfOperationsIsNamedOnEveryRank) {
  RankGroup group(Options(3));
  ExpectAll(group.Run([&](int rank, Communicator& communicator) {
    int64_t value = rank;
    if (rank == 1) return communicator.Broadcast(&value, 1, Dtype::kI64, 0);
    return AllReduceOnes(&communicator, 1);
  }),
            StatusCode::kInvalidArgument,
            {"all_reduce #0", "on ranks 0, 2", "broadcast #0 (i64 root 0", "on rank 1"});
}

TEST_P(FailureTest, DifferentRootsAreNamedOnEveryRank) {
  RankGroup group(Options(3));
  ExpectAll(group.Run([&](int rank, Communicator& communicator) {
    int64_t value = rank;
    return communicator.Broadcast(&value, 1, Dtype::kI64, rank == 2 ? 1 : 0);
  }),
            StatusCode::kInvalidArgument, {"root 0", "on ranks 0, 1", "root 1", "on rank 2"});
}

// One rank is a call ahead when the group fails: that is no mismatch.
TEST_P(FailureTest, ACallOneRankSkippedLeavesItMissing) {
  RankGroup group(Options(3, kExpiryMs));
  const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
    const absl::Status first = AllReduceOnes(&communicator, 1);
    return !first.ok() || rank == 1 ? first : AllReduceOnes(&communicator, 1);
  });
  EXPECT_THAT(statuses[1], IsOk());
  for (const int rank : {0, 2}) {
    EXPECT_THAT(statuses[static_cast<size_t>(rank)],
                StatusIs(StatusCode::kDeadlineExceeded, "missing: rank 1."));
    EXPECT_THAT(MessageOf(statuses[static_cast<size_t>(rank)]), HasSubstr("all_reduce #1"));
    EXPECT_THAT(BlamedBy(statuses[static_cast<size_t>(rank)]), testing::ElementsAre("rank 1"));
  }
}

TEST_P(FailureTest, InvalidArgumentsFailOnEveryRank) {
  RankGroup counts(Options(2));
  ExpectAll(counts.Run([&](int, Communicator& communicator) {
    return communicator.AllReduce(nullptr, -1, Dtype::kF32, ReduceOp::kSum);
  }),
            StatusCode::kInvalidArgument, {"count -1 is negative"});
  RankGroup roots(Options(2));
  ExpectAll(roots.Run([&](int, Communicator& communicator) {
    return communicator.Broadcast(nullptr, 0, Dtype::kF32, 2);
  }),
            StatusCode::kInvalidArgument, {"root 2 is no rank of 0..1"});
}

// Rank 1 leaves without its call: every survivor names it at once.
TEST_P(FailureTest, ARankThatLeftIsNamedByAllSurvivors) {
  RankGroup group(Options(4));
  const int64_t start_ns = group.clock().NowNs();
  std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
    if (rank != 1) return AllReduceOnes(&communicator, 100'000);
    group.Destroy(1);
    return absl::UnavailableError("all_reduce #0 lost: rank 1.");
  });
  EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
  ExpectAll(statuses, StatusCode::kUnavailable, {"all_reduce #0", "lost: rank 1."});
}

TEST_P(FailureTest, AnAbortEndsEveryWaitAtOnce) {
  RankGroup group(Options(3));
  const int64_t start_ns = group.clock().NowNs();
  const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
    if (rank != 2) return AllReduceOnes(&communicator, 5);
    group.abort().Request(absl::CancelledError("stopped by the user"));
    return absl::CancelledError("stopped by the user");
  });
  EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
  ExpectAll(statuses, StatusCode::kCancelled, {"stopped by the user"});
}

// Limits at their least: each wait and message of this room has its named error.
TEST_P(FailureTest, SyncTimeoutAtItsLeast) {
  RankGroup group(Options(2, 1));
  EXPECT_THAT(AllReduceOnes(&group.at(0), 5),
              StatusIs(StatusCode::kDeadlineExceeded, "limits.sync_timeout_ms = 1"));
}

TEST_P(FailureTest, MessageBytesMaxAtItsLeast) {
  GroupOptions options = Options(2);
  options.limits.message_bytes_max = 1'024;
  RankGroup group(options);
  const auto all_reduce = [](int64_t count) {
    return [count](int, Communicator& communicator) { return AllReduceOnes(&communicator, count); };
  };
  ExpectAll(group.Run(all_reduce(256)), StatusCode::kOk, {""});  // two chunks of 1,024 bytes
  ExpectAll(group.Run(all_reduce(257)), StatusCode::kResourceExhausted,
            {"1032 bytes exceeds limits.message_bytes_max = 1024"});
}

std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, FailureTest,
                         testing::Values(Transport::kInProcess, Transport::kTcp, Transport::kShm),
                         TransportName);

// What a fault of rank 0's messages to rank 1 must do to all ranks.
struct FaultCase {
  const char* name;
  Transport transport;
  FaultRule rule;
  StatusCode code;
  const char* part;
};

class FaultTest : public testing::TestWithParam<FaultCase> {};

TEST_P(FaultTest, IsToldOnEveryRank) {
  const FaultCase& fault = GetParam();
  const bool expires = fault.code == StatusCode::kDeadlineExceeded;
  RankGroup group(
      {3, fault.transport, 1, TestLimits(expires ? kExpiryMs : 10'000), {{0, fault.rule}}});
  const int64_t start_ns = group.clock().NowNs();
  ExpectAll(group.Run([&](int, Communicator& communicator) {
    RETURN_IF_ERROR(AllReduceOnes(&communicator, 100));
    return AllReduceOnes(&communicator, 100);
  }),
            fault.code, {fault.part});
  EXPECT_LT(ElapsedMs(group.clock(), start_ns), kPromptMs);
}

std::vector<FaultCase> FaultCases() {
  std::vector<FaultCase> cases;
  const auto add = [&](const char* name, FaultRule rule, StatusCode code, const char* part) {
    rule.peer = 1;
    for (const Transport transport : {Transport::kInProcess, Transport::kTcp, Transport::kShm}) {
      cases.push_back({name, transport, rule, code, part});
    }
  };
  const auto corrupt = [&](const char* name, size_t byte, const char* part) {
    add(name, {.fault = LinkFault::kCorrupt, .corrupt_byte = byte}, StatusCode::kInvalidArgument,
        part);
  };
  add("DropAll", {.fault = LinkFault::kDrop, .count = 1'000}, StatusCode::kDeadlineExceeded,
      "data did not arrive: rank 0 waited ");
  add("DropOne", {.fault = LinkFault::kDrop}, StatusCode::kInvalidArgument,
      "message 0 from rank 0 (its move 1) has sequence 1, expected 0");
  add("DropLastOfTheFirstCall", {.fault = LinkFault::kDrop, .first = 3},
      StatusCode::kInvalidArgument, "from rank 0");
  add("Duplicate", {.fault = LinkFault::kDuplicate, .first = 1}, StatusCode::kInvalidArgument,
      "has sequence 1, expected 2: a message was lost or came twice");
  corrupt("CorruptMagic", 0, "starts with magic");
  corrupt("CorruptKind", 4, "starts with magic");
  corrupt("CorruptEpoch", 8, "is of epoch");
  corrupt("CorruptFingerprint", 16, "belongs to another call");
  corrupt("CorruptSequence", 24, "has sequence 1, expected 0");
  corrupt("CorruptSize", 32, "bytes of tile 0, expected");
  corrupt("CorruptSizeBeyondTheLimit", 36, "more than limits.message_bytes_max = 67108864");
  corrupt("CorruptTile", 44, "bytes of tile 1, expected");
  return cases;
}
std::string FaultName(const testing::TestParamInfo<FaultCase>& info) {
  return absl::StrCat(NameOf(info.param.transport), info.param.name);
}
INSTANTIATE_TEST_SUITE_P(All, FaultTest, testing::ValuesIn(FaultCases()), FaultName);

TEST(DelayTest, AMessageHeldBackChangesNothingButTheTime) {
  for (const Transport transport : {Transport::kInProcess, Transport::kTcp, Transport::kShm}) {
    constexpr int64_t kDelayMs = 50;
    const FaultRule rule{.fault = LinkFault::kDelay, .peer = 1, .first = 1, .delay_ms = kDelayMs};
    RankGroup group({3, transport, 1, TestLimits(), {{0, rule}}});
    const int64_t start_ns = group.clock().NowNs();
    const std::vector<absl::Status> statuses = group.Run([&](int rank, Communicator& communicator) {
      std::vector<int64_t> data(100, rank);
      RETURN_IF_ERROR(communicator.AllReduce(data.data(), 100, Dtype::kI64, ReduceOp::kSum));
      EXPECT_EQ(data, std::vector<int64_t>(100, 3));
      return absl::OkStatus();
    });
    ExpectAll(statuses, StatusCode::kOk, {""});
    EXPECT_GE(ElapsedMs(group.clock(), start_ns), kDelayMs);
  }
}

// What flows through is unchecked: a flipped payload bit is the transport's business (TCP's
// checksum).
TEST(CorruptPayloadTest, AltersTheSumAlikeOnEveryRank) {
  const FaultRule rule{
      .fault = LinkFault::kCorrupt, .peer = 1, .corrupt_byte = sizeof(MessageHeader)};
  RankGroup group({3, Transport::kInProcess, 1, TestLimits(), {{0, rule}}});
  std::vector<std::vector<int64_t>> data(3, std::vector<int64_t>(3, 2));
  ExpectAll(group.Run([&](int rank, Communicator& communicator) {
    return communicator.AllReduce(data[static_cast<size_t>(rank)].data(), 3, Dtype::kI64,
                                  ReduceOp::kSum);
  }),
            StatusCode::kOk, {""});
  EXPECT_EQ(data[0], (std::vector<int64_t>{6, 6, 7}));
  EXPECT_EQ(data[1], data[0]);
  EXPECT_EQ(data[2], data[0]);
}

}  // namespace
}  // namespace lockstep
