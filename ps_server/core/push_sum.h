// push_sum.h: one gradient out of the workers' pushes of a shard, which are in rank order, block by
// block: a block needs no more of each push than its own elements. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ps_server/core/partition.h"
#include "ps_server/core/staging.h"
#include "ps_server/core/update.h"

namespace lockstep {

// A sum is made, and used, in blocks that stay in the processor's nearest cache.
inline constexpr int64_t kSumElements = 4 * kBlockElements;

// Elements [begin, begin + count) of a shard, all of one tensor. In EXACT a border of blocks of the
// shard is one of base/numeric/exact.h, too.
struct SumBlock {
  int64_t begin = 0;
  int64_t count = 0;   // <= kSumElements
  int32_t tensor = 0;  // index in the layout
  int64_t offset = 0;  // of its first element, from the start of the tensor
};
// They tile the shard, in order.
std::vector<SumBlock> SumBlocksOf(const std::vector<TensorPart>& parts);

// ((p0 + p1) + p2) + ..., each addition rounded. Not divided. REQUIRES, here and below: the block's
// elements of every push are here.
void SumInRankOrder(std::span<const Staging* const> pushes, const SumBlock& block, float* sum);

// The sum whose bits do not depend on the order (base/numeric/exact.h), divided by `divisor`. The
// exponents come from the pushes themselves, so that they cost no bytes on the wire. Returns the
// first value that is not finite; its `worker` is an index into `pushes`.
std::optional<NonFiniteValue> SumExactly(std::span<const Staging* const> pushes,
                                         const SumBlock& block, float divisor, float* sum);

}  // namespace lockstep
