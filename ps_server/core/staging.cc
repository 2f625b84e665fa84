#include "ps_server/core/staging.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/numeric/convert.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Buckets arrive whole, one after the other, so a worker leaves few gaps. The bound keeps a peer
// that sends single elements from growing the map.
constexpr size_t kGapsMax = 4096;
constexpr int64_t kWidened = 1024;  // elements at a time: they stay in the nearest cache

void CopyPieces(std::span<const Bytes> pieces, float* values) {
  auto* target = reinterpret_cast<std::byte*>(values);
  for (const Bytes piece : pieces) {
    if (!piece.empty()) std::memcpy(target, piece.data(), piece.size());
    target += piece.size();
  }
}

// Elements of f32, which may be cut.
void AddPieces(std::span<const Bytes> pieces, float* sum) {
  constexpr size_t kSize = sizeof(float);
  const auto add = [&sum](const std::byte* values, size_t count) {
    Fold(Dtype::kF32, ReduceOp::kSum, values, sum, static_cast<int64_t>(count));
    sum += count;
  };
  std::array<std::byte, kSize> cut{};
  size_t held = 0;  // bytes of it
  for (Bytes piece : pieces) {
    for (; held > 0 && held < kSize && !piece.empty(); piece = piece.subspan(1)) {
      cut[held++] = piece.front();
    }
    if (held == kSize) {
      add(cut.data(), 1);
      held = 0;
    }
    const size_t whole = piece.size() / kSize;
    if (whole > 0) add(piece.data(), whole);
    for (const std::byte byte : piece.subspan(whole * kSize)) cut[held++] = byte;
  }
}

using Pieces = absl::InlinedVector<Bytes, 8>;

// The bytes [begin, begin + count) of `pieces`; ends[i]: of piece i.
Pieces Cut(const std::vector<Bytes>& pieces, const std::vector<int64_t>& ends, int64_t begin,
           int64_t count) {
  const int64_t end = begin + count;
  const auto first = std::upper_bound(ends.begin(), ends.end(), begin);
  Pieces cut;
  for (auto i = static_cast<size_t>(first - ends.begin()); begin < end; ++i) {
    const int64_t start = ends[i] - static_cast<int64_t>(pieces[i].size());
    const int64_t to_here = std::min(end, ends[i]);
    cut.push_back(pieces[i].subspan(static_cast<size_t>(begin - start),
                                    static_cast<size_t>(to_here - begin)));
    begin = to_here;
  }
  return cut;
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
  chunks_.clear();
  covered_.clear();
  for (auto& [tensor, table] : tables_) table.begun = false;
  staged_ = 0;
}

bool Staging::empty() const {
  return staged_ == 0 && std::none_of(tables_.begin(), tables_.end(),
                                      [](const auto& entry) { return entry.second.begun; });
}

int64_t Staging::held_bytes() const {
  int64_t bytes = 0;
  for (const auto& [offset, chunk] : chunks_) {
    const size_t beside = sizeof(Chunk) + chunk.pieces.size() * (sizeof(Bytes) + sizeof(int64_t));
    bytes += chunk.ends.back() + static_cast<int64_t>(beside);
  }
  for (const auto& [tensor, table] : tables_) {
    bytes += static_cast<int64_t>(table.values.size() * sizeof(float));
  }
  return bytes;
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
  std::erase_if(tables_, [&](const auto& entry) {  // that came by rows in an earlier push
    return entry.second.begin < end && offset < entry.second.end;
  });
  if (owner != nullptr && IsKept(pieces)) {
    Keep(offset, count, pieces, owner, /*copied=*/false);
  } else {
    Copy(offset, count, pieces);
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
                   const std::shared_ptr<const void>& owner, bool copied) {
  Chunk chunk = {.count = count,
                 .pieces = {pieces.begin(), pieces.end()},
                 .ends = {},
                 .owner = owner,
                 .copied = copied};
  chunk.ends.reserve(pieces.size());
  int64_t end = 0;
  for (const Bytes piece : pieces) chunk.ends.push_back(end += static_cast<int64_t>(piece.size()));
  chunks_.emplace(offset, std::move(chunk));
}

// With its neighbours, if they are copies too and small.
void Staging::Copy(int64_t offset, int64_t count, std::span<const Bytes> pieces) {
  const int64_t own_bytes = CountBytes(pieces);
  const auto joins = [&](const Chunk& other) {
    return other.copied && other.released == 0 && other.ends.back() + own_bytes <= kKeptBytesMin;
  };
  std::vector<Bytes> all(pieces.begin(), pieces.end());
  std::vector<Chunk> joined;  // their bytes are copied below
  auto after = chunks_.lower_bound(offset);
  if (after != chunks_.end() && after->first == offset + count && joins(after->second)) {
    joined.push_back(std::move(after->second));
    all.insert(all.end(), joined.back().pieces.begin(), joined.back().pieces.end());
    count += joined.back().count;
    after = chunks_.erase(after);
  }
  const auto before = after == chunks_.begin() ? chunks_.end() : std::prev(after);
  if (before != chunks_.end() && before->first + before->second.count == offset &&
      joins(before->second)) {
    joined.push_back(std::move(before->second));
    all.insert(all.begin(), joined.back().pieces.begin(), joined.back().pieces.end());
    offset = before->first;
    count += joined.back().count;
    chunks_.erase(before);
  }
  const auto copy = std::make_shared<std::vector<std::byte>>();
  copy->reserve(static_cast<size_t>(CountBytes(all)));
  for (const Bytes piece : all) copy->insert(copy->end(), piece.begin(), piece.end());
  const Bytes view(*copy);
  Keep(offset, count, {&view, 1}, copy, /*copied=*/true);
}

template <typename Each, typename RowValues>
void Staging::ForEachPart(int64_t begin, int64_t count, const Each& each,
                          const RowValues& row_values) const {
  const int64_t end = begin + count;
  auto next = chunks_.upper_bound(begin);
  if (next != chunks_.begin()) --next;
  for (int64_t at = begin; at < end;) {
    if (next != chunks_.end() && next->first + next->second.count <= at) ++next;
    const bool in_chunk = next != chunks_.end() && next->first <= at;
    int64_t here = 0;
    if (in_chunk) {
      here = std::min(end, next->first + next->second.count) - at;
      const int64_t size = SizeOf(wire_);
      each(Cut(next->second.pieces, next->second.ends, (at - next->first) * size, here * size),
           at - begin, here);
    } else {
      const Rows& table = TableAt(at);
      here = std::min(end, table.end) - at;
      row_values(table.values.data() + (at - table.begin), at - begin, here);
    }
    at += here;
  }
}

void Staging::Read(int64_t begin, int64_t count, float* to) const {
  ForEachPart(
      begin, count,
      [&](const Pieces& pieces, int64_t at, int64_t /*here*/) { Put(pieces, to + at); },
      [&](const float* values, int64_t at, int64_t here) { std::copy_n(values, here, to + at); });
}

void Staging::AddTo(int64_t begin, int64_t count, float* sum) const {
  const auto add = [sum](const float* values, int64_t at, int64_t here) {
    Fold(Dtype::kF32, ReduceOp::kSum, values, sum + at, here);
  };
  if (wire_ == Dtype::kF32) {
    return ForEachPart(
        begin, count,
        [&](const Pieces& pieces, int64_t at, int64_t /*here*/) { AddPieces(pieces, sum + at); },
        add);
  }
  std::array<float, kWidened> values;  // written before it is read
  for (int64_t at = 0; at < count; at += kWidened) {
    const int64_t here = std::min(kWidened, count - at);
    Read(begin + at, here, values.data());
    add(values.data(), at, here);
  }
}

void Staging::Release(int64_t begin, int64_t count) {
  const int64_t end = begin + count;
  auto next = chunks_.upper_bound(begin);
  if (next != chunks_.begin()) --next;
  while (next != chunks_.end() && next->first < end) {
    Chunk& chunk = next->second;
    const int64_t from = std::max(begin, next->first);
    const int64_t to = std::min(end, next->first + chunk.count);
    chunk.released += std::max<int64_t>(0, to - from);
    next = chunk.released == chunk.count ? chunks_.erase(next) : std::next(next);
  }
}

const Staging::Rows& Staging::TableAt(int64_t element) const {
  const auto found = std::find_if(tables_.begin(), tables_.end(), [element](const auto& entry) {
    return entry.second.begun && entry.second.begin <= element && element < entry.second.end;
  });
  CHECK(found != tables_.end()) << "element " << element << " is not here";
  return found->second;
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
    if (!rows.begun || end <= rows.begin || begin >= rows.end) continue;
    return absl::InvalidArgumentError(absl::StrCat("chunk [", begin, ", ", end,
                                                   ") has elements of table ", tensor,
                                                   ", which comes by rows in this push"));
  }
  return absl::OkStatus();
}

// Zeros, where the table's first rows come.
absl::StatusOr<Staging::Rows*> Staging::RowsOf(const TableRows& table) {
  Rows& rows = tables_[table.tensor];
  if (rows.begun) return &rows;
  const int64_t end = table.offset + table.elements();
  const auto after = covered_.lower_bound(end);
  if (after != covered_.begin() && std::prev(after)->second > table.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of table ", table.tensor, ", some elements of which are here already"));
  }
  rows.begin = table.offset;
  rows.end = end;
  rows.values.assign(static_cast<size_t>(table.elements()), 0.0F);
  rows.here.assign(static_cast<size_t>(table.end - table.begin), false);
  rows.count = 0;
  rows.closed = false;
  rows.begun = true;
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
    std::copy_n(from, table.row_elements,
                known->values.begin() + (table.OffsetOf(row) - table.offset));
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
