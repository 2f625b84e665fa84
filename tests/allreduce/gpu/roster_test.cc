// What ranks tell each other before kernels work together.
#include "allreduce/gpu/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "allreduce/cuda/runtime.h"
#include "tests/support/status_matchers.h"

namespace lockstep::gpu {
namespace {

Row RowOf(int rank) {
  Row row;
  row.machine = "here";
  row.address = "0000:0" + std::to_string(rank) + ":00.0";
  row.ways = "ring";
  row.process = 100 + rank;
  row.device = rank;
  row.handles = {std::string(Runtime::kHandleBytes, static_cast<char>('a' + rank))};
  return row;
}

TEST(GpuRosterTest, ARowIsReadAsItWasWritten) {
  const Row row = RowOf(3);
  const absl::StatusOr<std::string> bytes = EncodeRow(row);
  ASSERT_THAT(bytes, IsOk());
  const absl::StatusOr<Row> read = DecodeRow(*bytes);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->machine, row.machine);
  EXPECT_EQ(read->address, row.address);
  EXPECT_EQ(read->ways, row.ways);
  EXPECT_EQ(read->process, row.process);
  EXPECT_EQ(read->device, row.device);
  EXPECT_EQ(read->key, row.key);
  EXPECT_EQ(read->handles, row.handles);
}

TEST(GpuRosterTest, WhatIsNoRowIsRefused) {
  EXPECT_THAT(DecodeRow("short"), StatusIs(absl::StatusCode::kDataLoss, "something else"));
  EXPECT_THAT(DecodeRow(std::string(EncodeRow(RowOf(0))->size(), '\0')),
              StatusIs(absl::StatusCode::kDataLoss, "damaged"));
  Row long_row = RowOf(0);
  long_row.ways = std::string(500, 'x');
  EXPECT_THAT(EncodeRow(long_row), StatusIs(absl::StatusCode::kInvalidArgument, "longer"));
}

TEST(GpuRosterTest, RanksOfSeveralMachinesAreNamed) {
  std::vector<Row> rows = {RowOf(0), RowOf(1), RowOf(2)};
  EXPECT_THAT(LayoutOf(rows, false), IsOk());
  rows[2].machine = "there";
  EXPECT_THAT(LayoutOf(rows, false),
              StatusIs(absl::StatusCode::kFailedPrecondition, "rank 2 on another"));
}

// Once two ranks that could not tell were taken for one machine's.
TEST(GpuRosterTest, AMachineThatIsNotKnownIsNoMachine) {
  std::vector<Row> rows = {RowOf(0), RowOf(1)};
  for (Row& row : rows) row.machine.clear();
  EXPECT_THAT(LayoutOf(rows, false),
              StatusIs(absl::StatusCode::kFailedPrecondition, "rank 0 does not know its machine"));
}

TEST(GpuRosterTest, OneProcessIsToldFromSeveral) {
  std::vector<Row> rows = {RowOf(0), RowOf(1)};
  EXPECT_EQ(LayoutOf(rows, false).value(), Layout::kProcesses);
  for (Row& row : rows) row.key = 7;
  EXPECT_THAT(LayoutOf(rows, false),
              StatusIs(absl::StatusCode::kFailedPrecondition, "either all ranks are in one"));
  rows[1].process = rows[0].process;
  EXPECT_EQ(LayoutOf(rows, false).value(), Layout::kOneProcess);
}

}  // namespace
}  // namespace lockstep::gpu
