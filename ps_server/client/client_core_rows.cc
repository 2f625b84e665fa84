// The part of ClientCore that pushes and pulls rows of a table.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "ps_server/client/client_core.h"
#include "ps_server/wire/row_frame.h"

namespace lockstep {
namespace {

// Values of `count` elements that begin at `flat` of a caller's memory.
ShardValues OneRun(int64_t flat, int64_t count, Dtype wire) {
  const TensorPart part = {.tensor = 0, .flat = flat, .offset = 0, .count = count};
  return ShardValues({.offset = 0, .count = count, .parts = {part}}, wire);
}

}  // namespace

absl::Status ClientCore::CheckRowOperation(int64_t step, int32_t tensor,
                                           std::span<const int64_t> rows, size_t values) const {
  const PsLayout& layout = options_.layout;
  const std::string who =
      absl::StrCat("worker ", options_.rank, ", rows of tensor ", tensor, ", step ", step);
  const auto index = static_cast<size_t>(tensor);
  if (tensor < 0 || index >= layout.row_elements.size() || layout.row_elements[index] == 0) {
    return absl::InvalidArgumentError(absl::StrCat(who, ": it is no table of the layout"));
  }
  const int64_t row = layout.row_elements[index];
  const TableRows table = {
      .tensor = tensor, .row_elements = row, .end = layout.tensor_counts[index] / row};
  RETURN_IF_ERROR(Annotate(CheckRows(table, rows), who));
  if (values != rows.size() * static_cast<size_t>(row)) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": ", values, " values for ", rows.size(), " rows of ", row));
  }
  if (row * SizeOf(wire_) + kRowNumberBytesMax > options_.limits.chunk_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": a row of ", row * SizeOf(wire_), " bytes and its number do not fit ",
                     "limits.chunk_bytes ", options_.limits.chunk_bytes, "; raise it"));
  }
  return absl::OkStatus();
}

void ClientCore::BeginRows(Operation operation, int64_t step, int32_t tensor,
                           std::span<const int64_t> rows) {
  const bool pushing = operation_ == Operation::kPush || operation_ == Operation::kPushRows;
  // Whatever was pushed before a pull has been read by its servers.
  if (!pushing) row_sources_.clear();
  Begin(operation, step);
  table_ = tensor;
  rows_ = rows;
  for (ShardSide& side : shards_) {
    side.rows = {};
    for (const TableRows& table : side.tables) {
      if (table.tensor != tensor) continue;
      const auto from = std::lower_bound(rows.begin(), rows.end(), table.begin);
      const auto to = std::lower_bound(from, rows.end(), table.end);
      side.rows = {.due = true,
                   .begin = static_cast<size_t>(from - rows.begin()),
                   .end = static_cast<size_t>(to - rows.begin())};
      side.rows.next = side.rows.begin;
      const auto count = static_cast<int64_t>(side.rows.end - side.rows.begin);
      ShardValues values = OneRun(static_cast<int64_t>(side.rows.begin) * table.row_elements,
                                  count * table.row_elements, wire_);
      if (operation == Operation::kPushRows) {
        row_sources_.push_back(std::move(values));
        side.rows.source = &row_sources_.back();
      } else {
        side.rows.target = std::move(values);
        side.waits = true;
        side.pulled = 0;
      }
    }
  }
}

absl::Status ClientCore::PushRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                                  std::span<const float> gradients) {
  RETURN_IF_ERROR(CheckRowOperation(step, tensor, rows, gradients.size()));
  BeginRows(Operation::kPushRows, step, tensor, rows);
  source_ = gradients;
  return absl::OkStatus();
}

absl::Status ClientCore::PullRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                                  std::span<float> parameters) {
  RETURN_IF_ERROR(CheckRowOperation(step, tensor, rows, parameters.size()));
  BeginRows(Operation::kPullRows, step, tensor, rows);
  target_ = parameters;
  return absl::OkStatus();
}

// The numbers of rows and, of a push, their gradients: no more than a chunk.
ClientFrame ClientCore::NextRows(size_t shard) {
  ShardSide& side = shards_[shard];
  RowsSide& rows = side.rows;
  const bool pushes = operation_ == Operation::kPushRows;
  const int64_t row = options_.layout.row_elements[static_cast<size_t>(table_)];
  const int64_t row_bytes = kRowNumberBytesMax + (pushes ? row * SizeOf(wire_) : 0);
  const auto fit = static_cast<size_t>(options_.limits.chunk_bytes / row_bytes);
  const size_t count = std::min(fit, rows.end - rows.next);
  PsFrame header = Header(pushes ? PUSH : PULL, shard);
  header.mutable_rows()->set_tensor(table_);
  for (const int64_t number : rows_.subspan(rows.next, count)) {
    header.mutable_rows()->add_row(number);
  }
  const auto first = static_cast<int64_t>(rows.next - rows.begin);
  rows.next += count;
  rows.due = rows.next < rows.end;
  header.mutable_rows()->set_last(!rows.due);
  if (!pushes) return {std::move(header), {}};
  header.set_base(round_min());
  Bytes payload;
  if (count > 0) {
    payload = rows.source->Gather(source_, 0, first * row, static_cast<int64_t>(count) * row);
  }
  return {std::move(header), payload};
}

int64_t ClientCore::ReplyElements(const ShardSide& side) const {
  if (operation_ != Operation::kPullRows) return side.values.count();
  return side.rows.target.has_value() ? side.rows.target->count() : 0;
}

}  // namespace lockstep
