#include "ps_server/core/staging.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/numeric/convert.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Buckets arrive whole, one after the other, so a worker leaves few gaps. The bound keeps a peer
// that sends single elements from growing the map.
constexpr size_t kGapsMax = 4096;

void CopyPieces(std::span<const Bytes> pieces, float* values) {
  auto* target = reinterpret_cast<std::byte*>(values);
  for (const Bytes piece : pieces) {
    if (!piece.empty()) std::memcpy(target, piece.data(), piece.size());
    target += piece.size();
  }
}

// Elements of two bytes.
void WidenPieces(Dtype wire, std::span<const Bytes> pieces, float* values) {
  std::array<std::byte, 2> cut{};  // an element whose first byte ended a piece
  bool has_first = false;
  for (Bytes piece : pieces) {
    if (has_first && !piece.empty()) {
      cut[1] = piece.front();
      Convert(wire, cut.data(), Dtype::kF32, values++, 1);
      piece = piece.subspan(1);
      has_first = false;
    }
    const size_t whole = piece.size() / 2;
    if (whole > 0) Convert(wire, piece.data(), Dtype::kF32, values, static_cast<int64_t>(whole));
    values += whole;
    if (piece.size() % 2 == 0) continue;
    cut[0] = piece.back();
    has_first = true;
  }
}

}  // namespace

void Staging::Reset(int64_t count, Dtype wire) {
  count_ = count;
  wire_ = wire;
  kept_.clear();
  covered_.clear();
  tables_.clear();
  staged_ = 0;
}

absl::StatusOr<Staging::Took> Staging::Add(int64_t offset, int64_t count,
                                           std::span<const Bytes> pieces,
                                           const std::shared_ptr<const void>& owner) {
  const int64_t end = offset + count;
  RETURN_IF_ERROR(CheckNotByRows(offset, end));
  // The last range that begins before `end` is the only one that can hold the whole chunk.
  const auto after = covered_.lower_bound(end);
  if (after != covered_.begin()) {
    const auto [begin_here, end_here] = *std::prev(after);
    if (begin_here <= offset && end <= end_here) return Took::kDuplicate;
    if (end_here > offset) {
      return absl::InvalidArgumentError(absl::StrCat("chunk [", offset, ", ", end, ") overlaps [",
                                                     begin_here, ", ", end_here,
                                                     "), which is here already, in part"));
    }
  }
  if (covered_.size() >= kGapsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a push in more than ", kGapsMax, " scattered chunks; send them in order"));
  }
  if (owner != nullptr && IsKept(pieces)) {
    Keep(offset, count, pieces, owner);
  } else {
    values_.resize(static_cast<size_t>(count_));
    Put(pieces, values_.data() + offset);
  }
  Merge(offset, end);
  staged_ += count;
  return Took::kNew;
}

bool Staging::IsKept(std::span<const Bytes> pieces) {
  const int64_t bytes = CountBytes(pieces);
  return bytes >= kKeptBytesMin &&
         bytes / static_cast<int64_t>(pieces.size()) >= kKeptPieceBytesMin;
}

void Staging::Keep(int64_t offset, int64_t count, std::span<const Bytes> pieces,
                   const std::shared_ptr<const void>& owner) {
  Kept chunk = {
      .count = count, .pieces = {pieces.begin(), pieces.end()}, .ends = {}, .owner = owner};
  int64_t end = 0;
  for (const Bytes piece : pieces) chunk.ends.push_back(end += static_cast<int64_t>(piece.size()));
  kept_.emplace(offset, std::move(chunk));
}

// Elements of the chunk, from its start.
void Staging::ReadKept(const Kept& chunk, int64_t begin, int64_t count, float* to) const {
  const int64_t from = begin * SizeOf(wire_);
  const int64_t end = from + count * SizeOf(wire_);
  const auto first = std::upper_bound(chunk.ends.begin(), chunk.ends.end(), from);
  absl::InlinedVector<Bytes, 8> cut;
  int64_t at = from;
  for (auto piece = static_cast<size_t>(first - chunk.ends.begin()); at < end; ++piece) {
    const Bytes bytes = chunk.pieces[piece];
    const int64_t start = chunk.ends[piece] - static_cast<int64_t>(bytes.size());
    const int64_t to_here = std::min(end, chunk.ends[piece]);
    cut.push_back(
        bytes.subspan(static_cast<size_t>(at - start), static_cast<size_t>(to_here - at)));
    at = to_here;
  }
  Put(cut, to);
}

void Staging::Read(int64_t begin, int64_t count, float* to) const {
  const int64_t end = begin + count;
  auto next = kept_.upper_bound(begin);
  if (next != kept_.begin() && std::prev(next)->first + std::prev(next)->second.count > begin) {
    --next;
  }
  while (begin < end) {
    const bool kept = next != kept_.end() && next->first <= begin;
    const int64_t border =
        kept ? next->first + next->second.count : (next == kept_.end() ? end : next->first);
    const int64_t here = std::min(end, border) - begin;
    if (kept) {
      ReadKept(next->second, begin - next->first, here, to);
      ++next;
    } else {
      std::copy_n(values_.begin() + begin, here, to);
    }
    begin += here;
    to += here;
  }
}

std::vector<float>& Staging::Values() {
  values_.resize(static_cast<size_t>(count_));
  for (const auto& [offset, chunk] : kept_) {
    ReadKept(chunk, 0, chunk.count, values_.data() + offset);
  }
  kept_.clear();
  return values_;
}

void Staging::Put(std::span<const Bytes> pieces, float* values) const {
  if (wire_ == Dtype::kF32) {
    CopyPieces(pieces, values);
  } else {
    WidenPieces(wire_, pieces, values);
  }
}

absl::Status Staging::CheckNotByRows(int64_t begin, int64_t end) const {
  for (const auto& [tensor, rows] : tables_) {
    if (end <= rows.begin || begin >= rows.end) continue;
    return absl::InvalidArgumentError(absl::StrCat("chunk [", begin, ", ", end,
                                                   ") has elements of table ", tensor,
                                                   ", which comes by rows in this push"));
  }
  return absl::OkStatus();
}

// Zeros, where the table's first rows come.
absl::StatusOr<Staging::Rows*> Staging::RowsOf(const TableRows& table) {
  const auto known = tables_.find(table.tensor);
  if (known != tables_.end()) return &known->second;
  const int64_t end = table.offset + table.elements();
  const auto after = covered_.lower_bound(end);
  if (after != covered_.begin() && std::prev(after)->second > table.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of table ", table.tensor, ", some elements of which are here already"));
  }
  values_.resize(static_cast<size_t>(count_));
  std::fill(values_.begin() + table.offset, values_.begin() + end, 0.0F);
  Rows& rows = tables_[table.tensor];
  rows.begin = table.offset;
  rows.end = end;
  rows.here.resize(static_cast<size_t>(table.end - table.begin));
  return &rows;
}

absl::StatusOr<Staging::Took> Staging::AddRows(const ShardRows& rows,
                                               std::span<const Bytes> pieces) {
  const TableRows& table = rows.table;
  ASSIGN_OR_RETURN(Rows* const known, RowsOf(table));
  const auto index = [&table](int64_t row) { return static_cast<size_t>(row - table.begin); };
  const auto count = static_cast<int64_t>(rows.rows.size());
  const int64_t again = std::count_if(rows.rows.begin(), rows.rows.end(),
                                      [&](int64_t row) { return known->here[index(row)]; });
  if (again == count && (known->closed || !rows.last)) return Took::kDuplicate;
  if (again > 0 || known->closed) {
    return absl::InvalidArgumentError(absl::StrCat(count, " rows of table ", table.tensor,
                                                   ", of which ", again, " are here already",
                                                   known->closed ? ", after the last ones" : ""));
  }
  rows_.resize(static_cast<size_t>(count * table.row_elements));
  Put(pieces, rows_.data());
  const float* from = rows_.data();
  for (const int64_t row : rows.rows) {
    std::copy_n(from, table.row_elements, values_.begin() + table.OffsetOf(row));
    from += table.row_elements;
    known->here[index(row)] = true;
  }
  known->count += count;
  staged_ += count * table.row_elements;
  if (rows.last) {
    known->closed = true;
    staged_ += table.elements() - known->count * table.row_elements;
  }
  return Took::kNew;
}

void Staging::Merge(int64_t begin, int64_t end) {
  auto next = covered_.lower_bound(begin);
  if (next != covered_.end() && next->first == end) {
    end = next->second;
    next = covered_.erase(next);
  }
  if (next != covered_.begin() && std::prev(next)->second == begin) {
    std::prev(next)->second = end;
    return;
  }
  covered_.emplace(begin, end);
}

}  // namespace lockstep
