// partition.h: the flat parameter space, cut into shards, and what every member must agree on
// first. Tensors follow each other in the flat space. It is cut into `shards` pieces of equal
// bytes, only at block borders: a tensor's start, or 1,024 elements after another border of the
// same tensor. So large tensors are split, and a shard holds whole blocks of EXACT
// (base/numeric/exact.h). A tensor may be empty: it takes no place, and no shard has a part of it.
// Promise: a shard differs from the mean by less than 1,024 elements; max / mean <= 1.1 where the
// mean is at least 10,240 elements (models of 64 Ki elements on up to 6 servers). Errors:
// InvalidArgument (a negative count, no elements at all, more shards than blocks). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numeric/exact.h"
#include "base/numeric/sgd.h"

namespace lockstep {

inline constexpr int64_t kBlockElements = kExactBlockElements;
// A layout that comes from the network is checked against this before anything is allocated.
inline constexpr int64_t kElementsMax = int64_t{1} << 36;

// What a shard holds of one tensor; begins at a block border.
struct TensorPart {
  int32_t tensor = 0;  // index in the layout
  int64_t offset = 0;  // elements from the start of the tensor, a multiple of kBlockElements
  int64_t count = 0;   // > 0
};
struct ShardRange {
  int64_t offset = 0;  // elements from the start of the flat space
  int64_t count = 0;
  std::vector<TensorPart> parts;  // in flat order; together `count` elements
};

// Elements of all tensors together. Counts from the network go through this before anything else
// adds them up.
absl::StatusOr<int64_t> CountElements(const std::vector<int64_t>& tensor_counts);

// Shard i is the i-th range; they tile the flat space and none is empty.
absl::StatusOr<std::vector<ShardRange>> Partition(const std::vector<int64_t>& tensor_counts,
                                                  int32_t shards);

// How a server sums: when it applies, and in what arithmetic.
enum class PsMode : uint8_t { kSync = 0, kAsync = 1 };
enum class PsOrder : uint8_t { kRank = 0, kExact = 1 };

// What worker and server must agree on before the first gradient.
struct PsLayout {
  PsMode mode = PsMode::kSync;
  PsOrder order = PsOrder::kRank;      // kExact: SYNC only
  std::vector<int64_t> tensor_counts;  // elements of each tensor, in flat order
  int32_t shards = 1;
  int32_t world_size = 1;
  SgdOptions sgd;  // divisor: world_size for MEAN, 1 for SUM and for ASYNC
};
// "sync, sums in rank order, f32, 4810 parameters in 6 tensors, 2 shards, 4 workers, sgd ..."
// REQUIRES: CountElements is OK.
std::string Describe(const PsLayout& layout);
// Equal exactly when every field is equal, each tensor's count included.
uint64_t FingerprintOf(const PsLayout& layout);

}  // namespace lockstep
