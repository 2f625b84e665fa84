// addition_order.h: which additions make each element of a step's gradient sum, in one text: a line
// a bucket, each in the canonical form of allreduce/schedule/order.h. Equal texts promise equal
// bits, so what is too long is cut and ends with the fingerprint of the whole. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "worker/bucket/bucket.h"

namespace lockstep {

inline constexpr size_t kAdditionOrderBytesMax = size_t{16} << 10;  // of the record's text
inline constexpr const char* kExactOrder = "exact";  // the same sum whatever the engine

// `order_of(count)`: of a bucket of `count` elements.
std::string AdditionOrderText(const std::vector<Bucket>& buckets,
                              const std::function<std::string(int64_t count)>& order_of);

}  // namespace lockstep
