// push_sum.h: one gradient out of the workers' pushes of a shard.
// pushes[r] holds the shard's elements of the r-th worker in rank order; the result replaces
// pushes[0]. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ps_server/core/partition.h"
#include "ps_server/core/update.h"

namespace lockstep {

// ((p0 + p1) + p2) + ..., each addition rounded. Not divided.
void SumInRankOrder(std::span<float* const> pushes, int64_t count);

// The sum whose bits do not depend on the order (base/numeric/exact.h), divided by `divisor`. The
// exponents come from the pushes themselves, so that they cost no bytes on the wire: every push of
// the step is here before the first value is rounded. Block by block, in a few KB of its own.
// Returns the first value that is not finite; its `worker` is an index into `pushes`.
std::optional<NonFiniteValue> SumExactly(const std::vector<TensorPart>& parts, float divisor,
                                         std::span<float* const> pushes);

}  // namespace lockstep
