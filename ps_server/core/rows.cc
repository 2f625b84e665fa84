#include "ps_server/core/rows.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace lockstep {

absl::StatusOr<std::vector<TableRows>> TablesIn(const ShardRange& range,
                                                const std::vector<int64_t>& tensor_counts,
                                                const std::vector<int64_t>& row_elements) {
  std::vector<TableRows> tables;
  if (row_elements.empty()) return tables;
  if (row_elements.size() != tensor_counts.size()) {
    return absl::InvalidArgumentError(absl::StrCat("row lengths for ", row_elements.size(),
                                                   " tensors, the layout has ",
                                                   tensor_counts.size()));
  }
  for (size_t i = 0; i < row_elements.size(); ++i) {
    if (row_elements[i] == 0) continue;
    if (row_elements[i] > 0 && tensor_counts[i] % row_elements[i] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", i, " of ", tensor_counts[i],
                                                   " elements has no whole rows of ",
                                                   row_elements[i]));
  }
  int64_t offset = 0;
  for (const TensorPart& part : range.parts) {
    const int64_t row = row_elements[static_cast<size_t>(part.tensor)];
    if (row > 0) {
      if (part.offset % row != 0 || part.count % row != 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a shard holds elements [", part.offset, ", ", part.offset + part.count, ") of tensor ",
            part.tensor, ", which cuts a row of ", row, "; use rows that divide ", kBlockElements,
            " elements, or place tensors whole"));
      }
      tables.push_back({.tensor = part.tensor,
                        .row_elements = row,
                        .begin = part.offset / row,
                        .end = (part.offset + part.count) / row,
                        .offset = offset});
    }
    offset += part.count;
  }
  return tables;
}

absl::Status CheckRows(const TableRows& table, std::span<const int64_t> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < table.begin || rows[i] >= table.end) {
      return absl::InvalidArgumentError(absl::StrCat("row ", rows[i], " of table ", table.tensor,
                                                     " is not in [", table.begin, ", ", table.end,
                                                     ")"));
    }
    if (i > 0 && rows[i] <= rows[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "row ", rows[i], " of table ", table.tensor,
          rows[i] == rows[i - 1] ? " comes twice" : absl::StrCat(" comes after row ", rows[i - 1]),
          "; rows are ascending, each once"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
