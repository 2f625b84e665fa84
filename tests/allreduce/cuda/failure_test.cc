// Every wait of a kernel ends: a rank that does not come is named by those that wait for it at the
// launch's deadline, and ends all blocks by the stop word; nobody gets a part of a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "allreduce/cuda/diagnosis.h"
#include "tests/allreduce/cuda/host_group.h"
#include "tests/allreduce/cuda/kernel_data.h"
#include "tests/allreduce/cuda/kernel_name.h"
#include "tests/allreduce/tier.h"

namespace lockstep::gpu {
namespace {

constexpr int32_t kRanks = 4;
constexpr int64_t kTimeoutMs = 500;

KernelSpec SpecOf(Kernel kernel) {
  return {.kernel = kernel,
          .world_size = kRanks,
          .channels = 2,
          .slots = 2,
          .slot_bytes = 1024,
          .packet_bytes = kernel == Kernel::kPacket ? 64 * 1024 : 0};
}

std::vector<RankReport> ReportsOf(const std::vector<BlockRecord>& records) {
  std::vector<RankReport> reports;
  reports.reserve(records.size());
  for (const BlockRecord& block : records) reports.push_back({block.rank, block.report});
  return reports;
}

class KernelFailureTest : public testing::TestWithParam<Kernel> {};

TEST_P(KernelFailureTest, AMissingRankEndsAllOthersAndIsNamed) {
  for (const int32_t missing : kFullTier ? std::vector{0, 1, 2, 3} : std::vector{1}) {
    const auto start = std::chrono::steady_clock::now();
    HostGroup group(SpecOf(GetParam()));
    const KernelData data(kRanks, {.count = 10'000}, 0);
    const std::vector<BlockRecord> records = group.Run(
        {data.call()}, {.threads_per_block = 2, .timeout_ms = kTimeoutMs, .missing = {missing}});
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(kTimeoutMs));
    int timed_out = 0;
    for (const BlockRecord& block : records) {
      // A leaf of a tree may have sent its last tile before it hears of it.
      if (block.report.outcome == Outcome::kTimedOut) ++timed_out;
      if (GetParam() == Kernel::kRing || GetParam() == Kernel::kDirect) {
        EXPECT_NE(block.report.outcome, Outcome::kDone) << "rank " << block.rank;
      }
    }
    EXPECT_GE(timed_out, 1);
    EXPECT_TRUE(data.Untouched()) << "a part of a result, rank " << missing << " missing";
    const std::string why = Diagnose(ReportsOf(records), kTimeoutMs);
    EXPECT_THAT(why, testing::HasSubstr("rank " + std::to_string(missing))) << why;
    EXPECT_THAT(why, testing::HasSubstr("500 ms"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelFailureTest, testing::ValuesIn(kKernels), KernelName);

Report TimedOut(int32_t peer) { return {Outcome::kTimedOut, WaitFor::kMessage, peer}; }
Report Stopped(int32_t peer) { return {Outcome::kStopped, WaitFor::kSlot, peer}; }
constexpr Report kDone{.outcome = Outcome::kDone};

TEST(DiagnosisTest, WhoIsWaitedForAndDoesNotWaitIsTheCause) {
  EXPECT_EQ(Diagnose({{0, kDone}, {1, kDone}}, 100), "");
  EXPECT_EQ(Diagnose({{0, TimedOut(3)}, {1, Stopped(0)}, {2, Stopped(1)}, {3, Report{}}}, 100),
            "rank 3 did not answer within 100 ms: rank 0 waits for its message");
  // All wait for each other: none is to blame alone, so all are told.
  EXPECT_EQ(Diagnose({{0, TimedOut(1)}, {1, Stopped(0)}}, 100),
            "no rank got on within 100 ms: rank 0 waits for a message of rank 1; rank 1 waits for "
            "a slot of rank 0");
}

// Once rank 3, which only waited, was named as if it were the cause.
TEST(DiagnosisTest, OfARankOfAnotherProcessItIsSaidThatItMayWaitToo) {
  EXPECT_EQ(Diagnose({{0, TimedOut(3)}}, 100),
            "rank 3 did not answer within 100 ms: rank 0 waits for its message (of another "
            "process, where it may wait, too)");
}

TEST(DiagnosisTest, ARankThatSaidNothingIsTheCause) {
  EXPECT_EQ(Diagnose({{0, kDone}, {1, Report{}}}, 100),
            "rank 1 did not come to its end within 100 ms");
}

}  // namespace
}  // namespace lockstep::gpu
