// rows.h: tables: tensors whose rows are pushed and pulled by number, as those of an embedding are.
// A table of R rows with D elements each holds row r at its elements [r * D, (r + 1) * D). A shard
// holds whole rows of it: the partition must not cut one, so D divides 1,024, or tensors are placed
// whole. A push by rows is a push of the shard like any other: the rows that do not come have
// gradients of zero, it becomes whole with the frame that says so, and its identity is (worker,
// incarnation, step, shard). Errors: InvalidArgument. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/core/partition.h"

namespace lockstep {

// What a shard holds of one table.
struct TableRows {
  int32_t tensor = 0;        // index in the layout
  int64_t row_elements = 0;  // D
  int64_t begin = 0;         // rows [begin, end)
  int64_t end = 0;
  int64_t offset = 0;  // of row `begin`, elements from the start of the shard

  int64_t elements() const { return (end - begin) * row_elements; }
  int64_t OffsetOf(int64_t row) const { return offset + (row - begin) * row_elements; }
};

// Of each table that the shard holds a part of, in flat order. `row_elements`: PsLayout's. Errors:
// one that is no divisor of its tensor, not one for each tensor, a shard that cuts a row.
absl::StatusOr<std::vector<TableRows>> TablesIn(const ShardRange& range,
                                                const std::vector<int64_t>& tensor_counts,
                                                const std::vector<int64_t>& row_elements);

// Whether these rows are in [begin, end) of the table, ascending, each once; says which is not.
absl::Status CheckRows(const TableRows& table, std::span<const int64_t> rows);

// Some rows of a push.
struct ShardRows {
  TableRows table;
  std::span<const int64_t> rows;  // that CheckRows has passed
  bool last = false;              // no more come: the rest are zeros
};

}  // namespace lockstep
