#include "ps_server/client/shard_values.h"

#include <algorithm>
#include <cstring>

#include "base/numeric/convert.h"

namespace lockstep {
namespace {

// Reads pieces as one sequence of bytes.
class PieceReader {
 public:
  explicit PieceReader(std::span<const Bytes> pieces) : pieces_(pieces) {}

  void Copy(void* target, size_t bytes) {
    auto* to = static_cast<std::byte*>(target);
    while (bytes > 0) {
      const Bytes rest = pieces_[piece_].subspan(at_);
      const size_t here = std::min(bytes, rest.size());
      std::memcpy(to, rest.data(), here);
      to += here;
      bytes -= here;
      at_ += here;
      if (at_ < pieces_[piece_].size()) continue;
      ++piece_;
      at_ = 0;
    }
  }

 private:
  const std::span<const Bytes> pieces_;
  size_t piece_ = 0;
  size_t at_ = 0;  // in pieces_[piece_]
};

}  // namespace

ShardValues::ShardValues(const ShardRange& range, Dtype wire) : wire_(wire) {
  for (const TensorPart& part : range.parts) {
    const bool follows = !runs_.empty() && runs_.back().flat + runs_.back().count == part.flat;
    if (follows) {
      runs_.back().count += part.count;
    } else {
      runs_.push_back({count_, part.flat, part.count});
    }
    count_ += part.count;
  }
}

template <typename Each>
void ShardValues::ForEachRun(int64_t begin, int64_t count, const Each& each) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), begin,
                                      [](int64_t at, const Run& run) { return at < run.begin; });
  for (auto run = after - 1; count > 0; ++run) {
    const int64_t from = begin - run->begin;
    const int64_t here = std::min(count, run->count - from);
    each(*run, from, here);
    begin += here;
    count -= here;
  }
}

ShardValues::Interval ShardValues::Within(int64_t begin, int64_t end) const {
  Interval interval;
  for (const Run& run : runs_) {
    const int64_t from = std::clamp<int64_t>(begin - run.flat, 0, run.count);
    const int64_t to = std::clamp<int64_t>(end - run.flat, 0, run.count);
    if (from >= to) continue;
    if (interval.begin == interval.end) interval.begin = run.begin + from;
    interval.end = run.begin + to;
  }
  return interval;
}

Bytes ShardValues::Gather(std::span<const float> source, int64_t offset, int64_t begin,
                          int64_t count) {
  const int64_t size = SizeOf(wire_);
  Bytes in_place;
  ForEachRun(begin, count, [&](const Run& run, int64_t from, int64_t here) {
    const float* const values = source.data() + (run.flat + from - offset);
    if (wire_ == Dtype::kF32 && here == count) {
      in_place = std::as_bytes(std::span(values, static_cast<size_t>(here)));
      return;
    }
    gathered_.resize(static_cast<size_t>(count_ * size));
    std::byte* const to = gathered_.data() + (run.begin + from) * size;
    if (wire_ == Dtype::kF32) {
      std::memcpy(to, values, static_cast<size_t>(here * size));
    } else {
      Convert(Dtype::kF32, values, wire_, to, here);
    }
  });
  if (!in_place.empty()) return in_place;
  return Bytes(gathered_).subspan(static_cast<size_t>(begin * size),
                                  static_cast<size_t>(count * size));
}

void ShardValues::Scatter(std::span<const Bytes> pieces, int64_t begin, int64_t count,
                          std::span<float> target) {
  PieceReader reader(pieces);
  ForEachRun(begin, count, [&](const Run& run, int64_t from, int64_t here) {
    float* const to = target.data() + run.flat + from;
    const auto bytes = static_cast<size_t>(here * SizeOf(wire_));
    if (wire_ == Dtype::kF32) return reader.Copy(to, bytes);
    scattered_.resize(std::max(scattered_.size(), bytes));
    reader.Copy(scattered_.data(), bytes);
    Convert(wire_, scattered_.data(), Dtype::kF32, to, here);
  });
}

}  // namespace lockstep
