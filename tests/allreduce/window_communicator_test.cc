// The window behind the communicator: which calls take it, and what their errors tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kExpiryMs = 400;

GroupOptions InSharedMemory(int n, Algorithm algorithm, int64_t sync_timeout_ms = 10'000) {
  GroupOptions options;
  options.n = n;
  options.transport = Transport::kShm;
  options.way.algorithm = algorithm;
  options.limits = TestLimits(sync_timeout_ms);
  return options;
}

TEST(WindowCommunicatorTest, DirectAndAutoReduceInPlaceAndTheOthersOverTheRings) {
  for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kAuto, Algorithm::kRing}) {
    RankGroup group(InSharedMemory(3, algorithm));
    const auto statuses = group.Run([](int rank, Communicator& communicator) -> absl::Status {
      constexpr int64_t kCount = 50'000;
      const absl::StatusOr<std::span<std::byte>> memory = communicator.Allocate(4 * kCount);
      if (!memory.ok()) return memory.status();
      auto* const data = reinterpret_cast<float*>(memory->data());
      std::fill(data, data + kCount, static_cast<float>(rank));
      const absl::Status status = communicator.AllReduce(data, kCount, Dtype::kF32, ReduceOp::kAvg);
      EXPECT_EQ(data[0], 1.0F);
      EXPECT_EQ(data[kCount - 1], 1.0F);
      return status;
    });
    for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
    const std::string order = group.at(0).AdditionOrder(9);
    if (algorithm != Algorithm::kRing) {
      EXPECT_EQ(order, "0-8: (g0+g1)+g2");
    }
  }
  RankGroup group(InSharedMemory(2, Algorithm::kAuto));
  EXPECT_THAT(group.at(0).Choice(1 << 20),
              testing::HasSubstr("direct, since the ranks share memory"));
}

TEST(WindowCommunicatorTest, AMismatchNamesBothSidesOnEveryRank) {
  RankGroup group(InSharedMemory(3, Algorithm::kDirect));
  const auto statuses = group.Run([](int rank, Communicator& communicator) {
    std::vector<float> data(512'000);
    const int64_t count = rank == 2 ? 512'000 : 256'000;
    return communicator.AllReduce(data.data(), count, Dtype::kF32, ReduceOp::kSum);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "count 256000"));
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "count 512000"));
  }
}

// CASES R04.
TEST(WindowCommunicatorTest, AMissingRankIsNamedWithinTheTimeout) {
  RankGroup group(InSharedMemory(3, Algorithm::kDirect, kExpiryMs));
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([](int rank, Communicator& communicator) {
    float value = 1;
    if (rank == 1) return absl::OkStatus();
    return communicator.AllReduce(&value, 1, Dtype::kF32, ReduceOp::kSum);
  });
  const int64_t elapsed_ms = (group.clock().NowNs() - start_ns) / kNsPerMs;
  EXPECT_GE(elapsed_ms, kExpiryMs);
  EXPECT_LT(elapsed_ms, 3 * kExpiryMs);
  for (const size_t rank : {0U, 2U}) {
    EXPECT_THAT(statuses[rank], StatusIs(StatusCode::kDeadlineExceeded, "missing: rank 1"));
  }
}

}  // namespace
}  // namespace lockstep
