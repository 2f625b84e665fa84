#include "ps_server/core/staging.h"

#include <array>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/numeric/convert.h"

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
  covered_.clear();
  staged_ = 0;
}

absl::StatusOr<Staging::Took> Staging::Add(int64_t offset, int64_t count,
                                           std::span<const Bytes> pieces) {
  const int64_t end = offset + count;
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
  values_.resize(static_cast<size_t>(count_));
  float* target = values_.data() + offset;
  if (wire_ == Dtype::kF32) {
    CopyPieces(pieces, target);
  } else {
    WidenPieces(wire_, pieces, target);
  }
  Merge(offset, end);
  staged_ += count;
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
