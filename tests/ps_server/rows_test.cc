#include "ps_server/core/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "ps_server/core/shard.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

std::vector<TableRows> TablesOf(const ShardRange& range, const std::vector<int64_t>& counts,
                                const std::vector<int64_t>& rows) {
  const auto tables = TablesIn(range, counts, rows);
  EXPECT_THAT(tables, IsOk());
  return tables.value_or(std::vector<TableRows>());
}

// A table between two other tensors, over three shards: each row is in exactly one of them.
TEST(TablesInTest, EveryRowHasOneShard) {
  const std::vector<int64_t> counts = {1'500, 6'144, 300};
  const std::vector<int64_t> rows = {0, 32, 0};
  const auto ranges = Partition(counts, 3);
  ASSERT_THAT(ranges, IsOk());
  int64_t next = 0;
  for (const ShardRange& range : *ranges) {
    for (const TableRows& table : TablesOf(range, counts, rows)) {
      EXPECT_EQ(table.tensor, 1);
      EXPECT_EQ(table.begin, next);
      // Where the shard's own list of parts says that the row is.
      const TensorPart& part = *std::find_if(range.parts.begin(), range.parts.end(),
                                             [](const TensorPart& p) { return p.tensor == 1; });
      EXPECT_EQ(part.offset, table.begin * 32);
      EXPECT_EQ(range.offset + table.offset, part.flat);
      EXPECT_EQ(table.OffsetOf(table.begin + 1), table.offset + 32);
      next = table.end;
    }
  }
  EXPECT_EQ(next, 6'144 / 32);
}

TEST(TablesInTest, RefusesWhatIsNoTable) {
  const std::vector<int64_t> counts = {4'800, 10};
  const auto ranges = Partition(counts, 2);
  ASSERT_THAT(ranges, IsOk());
  const auto refused = [&](const std::vector<int64_t>& rows) {
    return TablesIn((*ranges)[0], counts, rows).status();
  };
  EXPECT_THAT(refused({48, 0}), StatusIs(StatusCode::kInvalidArgument, "cuts a row of 48"));
  EXPECT_THAT(refused({7, 0}), StatusIs(StatusCode::kInvalidArgument, "no whole rows of 7"));
  EXPECT_THAT(refused({-1, 0}), StatusIs(StatusCode::kInvalidArgument, "no whole rows of -1"));
  EXPECT_THAT(refused({48}), StatusIs(StatusCode::kInvalidArgument, "for 1 tensors"));
  // A tensor that is placed whole may have rows of any length.
  const auto whole = Partition(counts, 2, PsPlacement::kBySize);
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(TablesOf((*whole)[0], counts, {48, 5})[0].end, 100);
}

TEST(CheckRowsTest, NamesTheRow) {
  const TableRows table = {.tensor = 3, .row_elements = 4, .begin = 10, .end = 20};
  const auto check = [&table](const std::vector<int64_t>& rows) { return CheckRows(table, rows); };
  EXPECT_THAT(check({}), IsOk());
  EXPECT_THAT(check({10, 11, 19}), IsOk());
  EXPECT_THAT(check({9}), StatusIs(StatusCode::kInvalidArgument, "row 9 of table 3 is not in"));
  EXPECT_THAT(check({10, 20}), StatusIs(StatusCode::kInvalidArgument, "row 20"));
  EXPECT_THAT(check({12, 12}),
              StatusIs(StatusCode::kInvalidArgument, "row 12 of table 3 comes twice"));
  EXPECT_THAT(check({12, 11}),
              StatusIs(StatusCode::kInvalidArgument, "row 11 of table 3 comes after row 12"));
}

constexpr int64_t kRow = 8;
constexpr int64_t kRows = 64;
constexpr int64_t kDense = 40;  // a tensor behind the table

// One worker's shard of a table and a plain tensor.
class TableShard {
 public:
  explicit TableShard(PsMode mode, int32_t workers = 1) {
    const std::vector<int64_t> counts = {kRows * kRow, kDense};
    const auto ranges = Partition(counts, 1);
    table_ = TablesOf((*ranges)[0], counts, {kRow, 0})[0];
    auto shard = Shard::Create({.rules = {.mode = mode, .optimizer = {0.5F, 0.9F, 1}},
                                .range = (*ranges)[0],
                                .world_size = workers,
                                .staged_bytes_max = 1 << 20,
                                .sync_timeout_ms = 1'000});
    EXPECT_THAT(shard, IsOk());
    shard_.emplace(*std::move(shard));
    const std::vector<float> start(kRows * kRow + kDense, 1.0F);
    for (int32_t w = 0; w < workers; ++w) EXPECT_THAT(Handle(AttachEvent{w, 1}), IsOk());
    const std::vector<Bytes> pieces = {std::as_bytes(std::span(start))};
    EXPECT_THAT(Handle(InitEvent{{0, 1, 0, 0}, {0, kRows * kRow + kDense, pieces}}), IsOk());
  }

  absl::Status Handle(const ShardEvent& event) {
    const ShardOutput output = shard_->Handle(event, 1);
    return output.refusals.empty() ? absl::OkStatus() : output.refusals[0].status;
  }
  absl::Status PushRows(int64_t step, const std::vector<int64_t>& rows,
                        const std::vector<float>& values, bool last) {
    // Cut within an element, as gRPC may.
    const Bytes all = std::as_bytes(std::span(values));
    const size_t cut = all.size() > 5 ? 5 : 0;
    const std::vector<Bytes> pieces = {all.first(cut), all.subspan(cut)};
    return Handle(PushEvent{{0, 1, step, 0}, {0, 0, pieces}, 0, ShardRows{table_, rows, last}});
  }
  absl::Status PushDense(int64_t step, int64_t offset, std::span<const float> values) {
    const std::vector<Bytes> pieces = {std::as_bytes(values)};
    return Handle(PushEvent{{0, 1, step, 0}, {offset, kRows * kRow + kDense, pieces}, 0});
  }
  const Shard& shard() const { return *shard_; }

 private:
  TableRows table_;
  std::optional<Shard> shard_;
};

class RowPush : public testing::TestWithParam<PsMode> {};

// The same bits as of a push of everything with zeros where no row is, in any number of frames.
TEST_P(RowPush, IsAPushWithZeros) {
  std::mt19937 random(7);
  TableShard by_rows(GetParam());
  TableShard whole(GetParam());
  for (int64_t step = 1; step <= 20; ++step) {
    std::vector<float> gradients(kRows * kRow + kDense, 0.0F);
    std::vector<int64_t> rows;
    std::vector<float> values;
    for (int64_t row = 0; row < kRows; ++row) {
      if (random() % 3 != 0) continue;
      rows.push_back(row);
      for (int64_t e = 0; e < kRow; ++e) {
        const auto value = static_cast<float>(random()) / 1e9F;
        gradients[static_cast<size_t>(row * kRow + e)] = value;
        values.push_back(value);
      }
    }
    for (int64_t e = 0; e < kDense; ++e) gradients[static_cast<size_t>(kRows * kRow + e)] = 0.25F;
    const size_t first = random() % (rows.size() + 1);
    const auto split = static_cast<std::ptrdiff_t>(first * kRow);
    const auto dense = std::span<const float>(gradients).subspan(kRows * kRow);
    if (step % 2 == 0) {
      EXPECT_THAT(by_rows.PushDense(step, kRows * kRow, dense), IsOk());
    }
    if (first > 0) {
      EXPECT_THAT(
          by_rows.PushRows(step, {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first)},
                           {values.begin(), values.begin() + split}, false),
          IsOk());
    }
    EXPECT_THAT(
        by_rows.PushRows(step, {rows.begin() + static_cast<std::ptrdiff_t>(first), rows.end()},
                         {values.begin() + split, values.end()}, true),
        IsOk());
    EXPECT_EQ(by_rows.shard().version(), step % 2 == 0 ? step : step - 1);
    if (step % 2 != 0) {
      EXPECT_THAT(by_rows.PushDense(step, kRows * kRow, dense), IsOk());
    }
    EXPECT_THAT(whole.PushDense(step, 0, gradients), IsOk());
    ASSERT_EQ(by_rows.shard().version(), step);
    ASSERT_TRUE(SameBits(*by_rows.shard().parameters(), *whole.shard().parameters())) << step;
  }
  EXPECT_EQ(by_rows.shard().duplicates(), 0);
}

// A table alone would be whole at once; the tensor behind it keeps the push open.
TEST_P(RowPush, RepeatedFramesAreCountedAndNotApplied) {
  TableShard shard(GetParam());
  const std::vector<float> values(2 * kRow, 1.0F);
  EXPECT_THAT(shard.PushRows(1, {3, 5}, values, false), IsOk());
  EXPECT_THAT(shard.PushRows(1, {3, 5}, values, false), IsOk());
  EXPECT_EQ(shard.shard().duplicates(), 1);
  EXPECT_THAT(shard.PushRows(1, {}, {}, true), IsOk());
  EXPECT_THAT(shard.PushRows(1, {}, {}, true), IsOk());
  EXPECT_EQ(shard.shard().duplicates(), 2);
  const std::vector<float> dense(kDense, 1.0F);
  EXPECT_THAT(shard.PushDense(1, kRows * kRow, dense), IsOk());
  EXPECT_EQ(shard.shard().version(), 1);
  EXPECT_THAT(shard.PushRows(1, {3, 5}, values, false), IsOk());
  EXPECT_THAT(shard.PushRows(1, {}, {}, true), IsOk());
  EXPECT_EQ(shard.shard().duplicates(), 4);
  EXPECT_EQ(shard.shard().version(), 1);
  EXPECT_EQ((*shard.shard().parameters())[3 * kRow], 0.5F);
}

TEST(RowPushTest, RefusesWhatDoesNotFitTogether) {
  const std::vector<float> two(2 * kRow, 1.0F);
  {
    TableShard shard(PsMode::kSync);
    EXPECT_THAT(shard.PushRows(1, {3, 5}, two, false), IsOk());
    EXPECT_THAT(shard.PushRows(1, {5, 6}, two, false),
                StatusIs(StatusCode::kInvalidArgument, "of which 1 are here already"));
  }
  {
    TableShard shard(PsMode::kSync);
    EXPECT_THAT(shard.PushRows(1, {3, 5}, two, true), IsOk());
    EXPECT_THAT(shard.PushRows(1, {7, 8}, two, true),
                StatusIs(StatusCode::kInvalidArgument, "after the last ones"));
  }
  {
    TableShard shard(PsMode::kSync);
    EXPECT_THAT(shard.PushRows(1, {3, 5}, two, true), IsOk());
    EXPECT_THAT(shard.PushDense(1, 0, two),
                StatusIs(StatusCode::kInvalidArgument, "comes by rows in this push"));
  }
  {
    TableShard shard(PsMode::kSync);
    EXPECT_THAT(shard.PushDense(1, 0, two), IsOk());
    EXPECT_THAT(shard.PushRows(1, {3, 5}, two, true),
                StatusIs(StatusCode::kInvalidArgument, "are here already"));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, RowPush, testing::Values(PsMode::kSync, PsMode::kAsync),
                         [](const auto& row) {
                           return row.param == PsMode::kSync ? "Sync" : "Async";
                         });

}  // namespace
}  // namespace lockstep
