// The NCCL engine's failures: each ends every rank within its time, says why and who.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/allreduce/nccl/nccl_group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Lt;

constexpr int64_t kShortMs = 600;
constexpr int64_t kSoonMs = 3'000;  // a deadline of kShortMs and what follows it

class NcclFailureTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { ResetSwitches(); }
  void TearDown() override { ResetSwitches(); }
  static int64_t Since(const NcclGroup& group, int64_t start_ns) {
    return (group.clock().NowNs() - start_ns) / kNsPerMs;
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclFailureTest, testing::Values(3),
                         [](const auto& param) { return absl::StrCat("n", param.param); });

TEST_P(NcclFailureTest, AMismatchIsAnErrorOnEveryRankThatNamesBothSides) {
  NcclGroup group(GetParam());
  const auto statuses = group.Connected().Run(
      [](int rank, Communicator& c) { return SumOnes(c, rank == 1 ? 2000 : 1000); });
  EXPECT_THAT(statuses, Each(AllOf(StatusIs(absl::StatusCode::kInvalidArgument, "count 1000"),
                                   StatusIs(absl::StatusCode::kInvalidArgument, "count 2000"))));
}

TEST_P(NcclFailureTest, AverageOfIntegersIsRefusedByEveryRank) {
  NcclGroup group(GetParam());
  const auto statuses = group.Connected().Run([](int, Communicator& c) {
    int32_t value = 1;
    return c.AllReduce(&value, 1, Dtype::kI32, ReduceOp::kAvg);
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kInvalidArgument, "avg")));
}

TEST_P(NcclFailureTest, ARankThatNeverCallsIsNamedWithinTheTimeout) {
  NcclGroup group(GetParam(), kShortMs);
  group.Connected();
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run(
      [](int rank, Communicator& c) { return rank == 1 ? absl::OkStatus() : SumOnes(c); });
  EXPECT_THAT(Since(group, start_ns), Lt(kSoonMs));
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kDeadlineExceeded, "missing: rank 1"));
  EXPECT_THAT(BlamedBy(statuses[0]), ElementsAre("rank 1"));
}

TEST_P(NcclFailureTest, ARankThatLeftIsNamedAndForGood) {
  NcclGroup group(GetParam());
  const auto statuses = group.Connected().Run([&](int rank, Communicator& c) -> absl::Status {
    if (rank == 1) {
      group.Destroy(1);
      return absl::OkStatus();
    }
    const absl::Status first = SumOnes(c);
    EXPECT_EQ(c.Barrier().message(), first.message());
    return first;
  });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kUnavailable, "rank 1"));
  EXPECT_THAT(BlamedBy(statuses[0]), ElementsAre("rank 1"));
}

// All ranks are in the call, and none gets on: a kernel that never ends.
TEST_P(NcclFailureTest, AKernelThatHangsIsAbortedByEveryRankWithinTheTimeout) {
  NcclGroup group(GetParam(), kShortMs);
  group.Connected();
  Switches().kernel_hangs = 1;
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([](int, Communicator& c) { return SumOnes(c); });
  EXPECT_THAT(Since(group, start_ns), AllOf(Ge(kShortMs), Lt(kSoonMs)));
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kDeadlineExceeded, "all_reduce")));
  EXPECT_EQ(Switches().aborts, GetParam());
  EXPECT_THAT(group.Run([](int, Communicator& c) { return SumOnes(c); }),
              Each(StatusIs(absl::StatusCode::kDeadlineExceeded, "all_reduce")));
}

// A rank that is stuck inside the library can't tell; the others name it.
TEST_P(NcclFailureTest, ARankThatIsStuckInsideTheLibraryIsNamedByTheOthers) {
  NcclGroup group(GetParam(), kShortMs);
  group.Connected();
  Switches().call_blocks = 1;
  std::atomic<int> others = 0;
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([&](int rank, Communicator& c) {
    absl::Status status = SumOnes(c);
    if (rank == 1) return status;
    EXPECT_THAT(Since(group, start_ns), Lt(kSoonMs));
    if (++others == GetParam() - 1) Switches().call_blocks = -1;
    return status;
  });
  for (int rank = 0; rank < GetParam(); ++rank) {
    if (rank == 1) continue;
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded, "missing: rank 1"));
    EXPECT_THAT(BlamedBy(status), ElementsAre("rank 1"));
  }
  EXPECT_FALSE(statuses[1].ok());
}

TEST_P(NcclFailureTest, AnAbortEndsAKernelThatHangs) {
  NcclGroup group(GetParam());
  group.Connected();
  Switches().kernel_hangs = 0;
  const int64_t start_ns = group.clock().NowNs();
  std::thread stopper([&] {
    while (Switches().kernels < GetParam()) std::this_thread::yield();  // all are in it
    group.abort().Request(absl::CancelledError("stopped"));
  });
  const auto statuses = group.Run([](int, Communicator& c) { return SumOnes(c); });
  stopper.join();
  EXPECT_THAT(Since(group, start_ns), Lt(kSoonMs));
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kCancelled, "stopped")));
}

TEST_P(NcclFailureTest, AnAsynchronousErrorEndsEveryRankAtOnceWithNcclsWords) {
  NcclGroup group(GetParam());
  group.Connected();
  Switches().kernel_hangs = 0;  // so that the others are in the middle of it
  Switches().async_error = 1;
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([](int, Communicator& c) { return SumOnes(c); });
  EXPECT_THAT(Since(group, start_ns), Lt(kSoonMs));
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kUnavailable,
                                      "nccl: rank 1, collective: unhandled system error (the wire "
                                      "broke)")));
}

TEST_P(NcclFailureTest, AStartThatFailsTellsEveryRank) {
  Switches().init_fails = 1;
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connect(),
              Each(StatusIs(absl::StatusCode::kUnavailable, "nccl: rank 1, ncclCommInitRank")));
}

TEST_P(NcclFailureTest, AStartThatHangsEndsOnEveryRankWithinTheTimeout) {
  Switches().init_hangs = 1;
  NcclGroup group(GetParam(), kShortMs);
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Connect();
  EXPECT_THAT(Since(group, start_ns), Lt(kSoonMs));
  for (const absl::Status& status : statuses) EXPECT_FALSE(status.ok());
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kDeadlineExceeded, "rank 0 waited"));
}

TEST_P(NcclFailureTest, LeavingWithoutTheOthersEndsInAnAbort) {
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return SumOnes(c); }), Each(IsOk()));
  Switches().leaving_hangs = true;
  const int64_t start_ns = group.clock().NowNs();
  group.Destroy();
  EXPECT_THAT(Since(group, start_ns), Lt(5'000));
  EXPECT_EQ(Switches().aborts, GetParam());
  EXPECT_EQ(Switches().destroyed, 0);
}

TEST_P(NcclFailureTest, LeavingTogetherAbortsNothing) {
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return SumOnes(c); }), Each(IsOk()));
  group.Destroy();
  EXPECT_EQ(Switches().aborts, 0);
  EXPECT_EQ(Switches().destroyed, GetParam());
}

}  // namespace
}  // namespace lockstep
