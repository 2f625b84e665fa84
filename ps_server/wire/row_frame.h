// row_frame.h: what a PUSH or PULL frame says about rows of a table, checked against what the shard
// holds before anything is done with it: the table, each row's number, their order, and that the
// payload has the length of so many rows.
// Errors: InvalidArgument, with worker and shard. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/dtype.h"
#include "ps_server/core/rows.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

// Bytes that a row's number takes in a frame at most.
inline constexpr int64_t kRowNumberBytesMax = 8;

// `tables`: of the shard. The result points into `frame`. REQUIRES: frame.header.has_rows().
absl::StatusOr<ShardRows> DecodeRows(const Frame& frame, const std::vector<TableRows>& tables,
                                     Dtype wire);

}  // namespace lockstep
