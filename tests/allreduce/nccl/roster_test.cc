// What ranks tell each other before NCCL starts, and who gets which GPU.
#include "allreduce/nccl/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "tests/support/status_matchers.h"

namespace lockstep::nccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;

RosterRow On(const std::string& machine, const std::vector<std::string>& gpus) {
  RosterRow row;
  row.version = 22809;
  row.device = {.driver = 13000, .runtime = 12090, .machine = machine, .gpus = gpus};
  return row;
}

TEST(RosterTest, ARowComesBackAsItWas) {
  RosterRow row = On("machine 1", {"0000:01:00.0", "0000:02:00.0"});
  for (size_t i = 0; i < sizeof(row.id.internal); ++i)
    row.id.internal[i] = static_cast<char>(i * 3);
  row.variables = {"NCCL_ALGO=Ring", "NCCL_EMPTY=", "NCCL_NET=a b=c"};
  const auto bytes = EncodeRow(row);
  ASSERT_THAT(bytes, IsOk());
  const auto back = DecodeRow(*bytes);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(std::string(back->id.internal, 128), std::string(row.id.internal, 128));
  EXPECT_EQ(back->version, 22809);
  EXPECT_EQ(back->device.driver, 13000);
  EXPECT_EQ(back->device.runtime, 12090);
  EXPECT_EQ(back->device.machine, "machine 1");
  EXPECT_EQ(back->device.gpus, row.device.gpus);
  EXPECT_EQ(back->variables, row.variables);
}

TEST(RosterTest, RowsHaveOneLength) {
  EXPECT_EQ(EncodeRow(On("a", {"x"}))->size(), EncodeRow(On("abc", {"x", "y", "z"}))->size());
}

TEST(RosterTest, WhatDoesNotFitIsRefused) {
  RosterRow row = On("a", {"x"});
  row.variables = {"NCCL_A=" + std::string(5000, 'x')};
  EXPECT_THAT(EncodeRow(row), StatusIs(absl::StatusCode::kInvalidArgument, "at most 4096"));
  row.variables = {"NCCL_A=two\nlines"};
  EXPECT_THAT(EncodeRow(row), StatusIs(absl::StatusCode::kInvalidArgument, "NCCL_A has more than"));
}

TEST(RosterTest, WhatIsNoRowIsRefused) {
  const std::string good = *EncodeRow(On("a", {"x"}));
  EXPECT_THAT(DecodeRow(good.substr(1)), StatusIs(absl::StatusCode::kDataLoss, "row"));
  std::string damaged = good;
  damaged[130] = '?';
  EXPECT_THAT(DecodeRow(damaged), StatusIs(absl::StatusCode::kDataLoss, "row"));
  EXPECT_THAT(DecodeRow(std::string(good.size(), '\0')),
              StatusIs(absl::StatusCode::kDataLoss, "row"));
}

TEST(RosterTest, EachRankOfAMachineTakesTheNextGpu) {
  EXPECT_THAT(*SeatRanks({On("a", {"x", "y"}), On("b", {"x", "y"}), On("a", {"x", "y"}),
                          On("b", {"x", "y"})},
                         false),
              ElementsAre(0, 0, 1, 1));
}

// As Slurm and torchrun may start them: each process sees its own GPU alone.
TEST(RosterTest, ARankThatSeesOneGpuTakesThat) {
  EXPECT_THAT(*SeatRanks({On("a", {"x"}), On("a", {"y"}), On("a", {"z"})}, false),
              ElementsAre(0, 0, 0));
}

TEST(RosterTest, TwoRanksOnOneGpuAreNamedWithCountsAndAWayOut) {
  const auto refused = SeatRanks({On("a", {"x"}), On("b", {"x"}), On("a", {"x"})}, false);
  EXPECT_THAT(refused, StatusIs(kRefused, "rank 0, rank 2 would share GPU x"));
  EXPECT_THAT(refused, StatusIs(kRefused, "2 ranks are on its machine and 1 GPUs"));
  EXPECT_THAT(refused, StatusIs(kRefused, "nccl { share_gpu: true }"));
}

TEST(RosterTest, AnotherVersionIsNamed) {
  std::vector<RosterRow> rows = {On("a", {"x"}), On("a", {"x"}), On("a", {"x"})};
  rows[2].version = 22005;
  EXPECT_THAT(CheckAlike(rows), StatusIs(kRefused, "rank 0 has version 2.28.9, rank 2 has 2.20.5"));
}

TEST(RosterTest, VariablesMustBeAlikeButForPlacesAndOutput) {
  std::vector<RosterRow> rows = {On("a", {"x"}), On("a", {"x"})};
  rows[0].variables = {"NCCL_HOSTID=1", "NCCL_DEBUG=INFO", "NCCL_SOCKET_IFNAME=eth0"};
  rows[1].variables = {"NCCL_HOSTID=2", "NCCL_IB_HCA=mlx5"};
  EXPECT_THAT(CheckAlike(rows), IsOk());
  rows[1].variables.push_back("NCCL_PROTO=LL");
  EXPECT_THAT(CheckAlike(rows),
              StatusIs(kRefused, "rank 0 has no NCCL_PROTO, rank 1 has NCCL_PROTO=LL"));
  rows[0].variables.push_back("NCCL_PROTO=Simple");
  EXPECT_THAT(CheckAlike(rows),
              StatusIs(kRefused, "rank 0 has NCCL_PROTO=Simple, rank 1 has NCCL_PROTO=LL"));
}

TEST(RosterTest, DriversThatDifferAreSaid) {
  std::vector<RosterRow> rows = {On("a", {"x"}), On("b", {"x"})};
  EXPECT_EQ(RemarksOn(rows, {0, 0}), "");
  rows[1].device.driver = 12040;
  EXPECT_THAT(RemarksOn(rows, {0, 0}),
              HasSubstr("drivers differ: rank 0 has one for CUDA 13.0, rank 1 one for 12.4"));
}

TEST(RosterTest, WhatTheVariantAsksForMustBeThere) {
  EXPECT_THAT(CheckRequired({"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}), IsOk());
  EXPECT_THAT(CheckRequired({"NCCL_ALGO=Tree"}, {"NCCL_ALGO=Ring"}),
              StatusIs(kRefused, "this process has NCCL_ALGO=Tree"));
  EXPECT_THAT(CheckRequired({}, {"NCCL_ALGO=Ring"}),
              StatusIs(kRefused, "start the process with NCCL_ALGO=Ring"));
}

}  // namespace
}  // namespace lockstep::nccl
