// shard_values.h: a shard's elements between the flat space and the wire. A shard is a list of
// parts that follow each other in the shard, in the flat space there may be gaps between them;
// values travel as f32, f16 or bf16. Units: elements. Pure. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/numeric/dtype.h"
#include "ps_server/core/partition.h"
#include "ps_server/wire/frame.h"

namespace lockstep {

class ShardValues {
 public:
  ShardValues(const ShardRange& range, Dtype wire);

  int64_t count() const { return count_; }

  struct Interval {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // The shard's elements that lie in [begin, end) of the flat space. Parts are in flat order, so
  // they follow each other in the shard too.
  Interval Within(int64_t begin, int64_t end) const;

  // The shard's elements [begin, begin + count) as they travel, out of `source`, which begins at
  // element `offset` of the flat space: where they stand, if they are f32 and in one piece,
  // otherwise a copy, which stays until those elements are gathered again.
  Bytes Gather(std::span<const float> source, int64_t offset, int64_t begin, int64_t count);
  // Puts what arrived for the shard's elements [begin, begin + count) into the flat space `target`.
  // REQUIRES: `pieces` hold so many elements; they may be cut at any byte.
  void Scatter(std::span<const Bytes> pieces, int64_t begin, int64_t count,
               std::span<float> target);

 private:
  // Parts without a gap between them.
  struct Run {
    int64_t begin = 0;  // in the shard
    int64_t flat = 0;
    int64_t count = 0;
  };
  // Calls `each(run, from, here)` for what of [begin, begin + count) lies in each run, `from`
  // counted from the run's start.
  template <typename Each>
  void ForEachRun(int64_t begin, int64_t count, const Each& each) const;

  Dtype wire_;
  int64_t count_ = 0;
  std::vector<Run> runs_;
  std::vector<std::byte> gathered_;   // the shard as it travels
  std::vector<std::byte> scattered_;  // a run's part of a chunk, as it travelled
};

}  // namespace lockstep
