// push_sum.h: one gradient out of the workers' pushes of a shard, which are in rank order.
// Pure, thread-safe.
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
inline constexpr int64_t kSumElements = 4096;

// Of the elements [begin, begin + count): ((p0 + p1) + p2) + ..., each addition rounded. Not
// divided. REQUIRES: count <= kSumElements, the pushes are complete.
void SumInRankOrder(std::span<const Staging* const> pushes, int64_t begin, int64_t count,
                    float* sum);

// The sum whose bits do not depend on the order (base/numeric/exact.h), divided by `divisor`. The
// exponents come from the pushes themselves, so that they cost no bytes on the wire: every push of
// the step is here before the first value is rounded. Block by block, in a few KB of its own.
// It replaces pushes[0]. Returns the first value that is not finite; its `worker` is an index into
// `pushes`.
std::optional<NonFiniteValue> SumExactly(const std::vector<TensorPart>& parts, float divisor,
                                         std::span<float* const> pushes);

}  // namespace lockstep
