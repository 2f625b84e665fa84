#include "ps_server/wire/row_frame.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {
namespace {

// A number of an element is below kElementsMax, and a varint carries 7 bits a byte.
static_assert(kElementsMax <= int64_t{1} << (7 * kRowNumberBytesMax));

}  // namespace

absl::StatusOr<ShardRows> DecodeRows(const Frame& frame, const std::vector<TableRows>& tables,
                                     Dtype wire) {
  const PsFrame& header = frame.header;
  const PsRows& rows = header.rows();
  const std::string sender = absl::StrCat("worker ", header.worker(), ", step ", header.step(),
                                          ", shard ", header.shard());
  const auto table = std::find_if(tables.begin(), tables.end(), [&rows](const TableRows& here) {
    return here.tensor == rows.tensor();
  });
  if (table == tables.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(sender, ": the shard has no rows of tensor ", rows.tensor()));
  }
  const std::span<const int64_t> numbers(rows.row().data(), static_cast<size_t>(rows.row_size()));
  RETURN_IF_ERROR(Annotate(CheckRows(*table, numbers), sender));
  const int64_t row_bytes = header.kind() == PUSH ? table->row_elements * SizeOf(wire) : 0;
  // By division: a row's length comes from the network.
  const bool fits = row_bytes == 0 ? frame.payload_bytes == 0
                                   : frame.payload_bytes % row_bytes == 0 &&
                                         frame.payload_bytes / row_bytes == rows.row_size();
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat(sender, ": ", rows.row_size(), " rows of table ", rows.tensor(), " come with ",
                     frame.payload_bytes, " bytes, expected ", row_bytes, " each"));
  }
  if (numbers.empty() && !rows.last()) {
    return absl::InvalidArgumentError(
        absl::StrCat(sender, ": a frame about table ", rows.tensor(), " names no rows"));
  }
  return ShardRows{.table = *table, .rows = numbers, .last = rows.last()};
}

}  // namespace lockstep
