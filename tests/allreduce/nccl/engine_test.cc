// The NCCL engine without NCCL and without a GPU: its collectives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/exact.h"
#include "base/status.h"
#include "tests/allreduce/engine_checks.h"
#include "tests/allreduce/nccl/nccl_group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class NcclTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { ResetSwitches(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclTest, testing::Values(1, 2, 3, 4),
                         [](const auto& param) { return absl::StrCat("n", param.param); });

TEST_P(NcclTest, EveryCollectiveOfEveryDtypeIsRight) {
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return CheckCollectives(&c); }),
              Each(IsOk()));
}

TEST_P(NcclTest, MemoryGrowsAndIsUsedAgain) {
  NcclGroup group(GetParam());
  const auto statuses = group.Connected().Run([](int, Communicator& c) -> absl::Status {
    for (const int64_t count : {1, 20'003, 7, 20'000}) {
      RETURN_IF_ERROR(CheckReduction(&c, Dtype::kF32, ReduceOp::kSum, count));
      RETURN_IF_ERROR(CheckMoves(&c, Dtype::kU8, count));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(IsOk()));
}

TEST_P(NcclTest, MinAndMaxKeepNanAndOrderZeros) {
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) {
    return c.world_size() == 1 ? absl::OkStatus() : CheckNanAndZero(&c);
  }),
              Each(IsOk()));
}

TEST_P(NcclTest, IntegerSumsWrap) {
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return CheckWrap(&c); }),
              Each(IsOk()));
}

TEST_P(NcclTest, GroupsWorkBesideTheWhole) {
  if (GetParam() == 1) GTEST_SKIP() << "no rank is left for a group";
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return CheckGroup(&c); }),
              Each(IsOk()));
}

TEST_P(NcclTest, VersionAndFileAreTold) {
  NcclGroup group(GetParam());
  group.Connected().Run([](int, Communicator& c) {
    EXPECT_THAT(c.Choice(4),
                AllOf(HasSubstr("NCCL 2.28.9"), HasSubstr("fake_nccl/whole/libnccl.so.2")));
    return absl::OkStatus();
  });
}

// What a rank brings: of very different size, so that other orders round to other sums.
float Uneven(int rank, int64_t i) {
  const auto spread = static_cast<int>((i * 7 + rank * 13) % 40) - 20;
  return std::ldexp(1.0F + static_cast<float>((i + rank) % 97) / 128.0F, spread);
}

// The same bits as the host engine's, which sums in another order.
TEST_P(NcclTest, ExactSumsHaveTheBitsOfEveryEngine) {
  constexpr std::array<int64_t, 2> kTensors = {1500, 333};
  const auto sum = [&](int rank, Communicator& c, std::vector<float>* values) {
    for (int64_t i = 0; i < kTensors[0] + kTensors[1]; ++i) values->push_back(Uneven(rank, i));
    ExactAllReduce exact(&c);
    return exact.Run(Dtype::kF32, values->data(), kTensors, /*divisor=*/1);
  };
  std::vector<std::vector<float>> ours(static_cast<size_t>(GetParam()));
  std::vector<std::vector<float>> nccls(static_cast<size_t>(GetParam()));
  GroupOptions options;
  options.n = GetParam();
  RankGroup host(options);
  EXPECT_THAT(host.Run([&](int rank, Communicator& c) {
    return sum(rank, c, &ours[static_cast<size_t>(rank)]);
  }),
              Each(IsOk()));
  NcclGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([&](int rank, Communicator& c) {
    return sum(rank, c, &nccls[static_cast<size_t>(rank)]);
  }),
              Each(IsOk()));
  EXPECT_EQ(ours, nccls);
}

}  // namespace
}  // namespace lockstep
