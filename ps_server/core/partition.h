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
#include "ps_server/core/rules.h"

namespace lockstep {

inline constexpr int64_t kBlockElements = kExactBlockElements;
// A layout that comes from the network is checked against this before anything is allocated.
inline constexpr int64_t kElementsMax = int64_t{1} << 36;

// kSplit: equal bytes, large tensors cut. kInTurn, kBySize: whole tensors, for comparison: tensor i
// to shard i % shards; or the largest first, each to the shard that has least.
enum class PsPlacement : uint8_t { kSplit = 0, kInTurn = 1, kBySize = 2 };
const char* NameOf(PsPlacement placement);  // "in turn"

// What a shard holds of one tensor; begins at a block border.
struct TensorPart {
  int32_t tensor = 0;  // index in the layout
  int64_t flat = 0;    // elements from the start of the flat space
  int64_t offset = 0;  // elements from the start of the tensor, a multiple of kBlockElements
  int64_t count = 0;   // > 0
};
struct ShardRange {
  int64_t offset = 0;  // of its first part, elements from the start of the flat space
  int64_t count = 0;
  std::vector<TensorPart>
      parts;  // in flat order, one after the other in the shard; `count` elements
};

// Elements of all tensors together. Counts from the network go through this before anything else
// adds them up.
absl::StatusOr<int64_t> CountElements(const std::vector<int64_t>& tensor_counts);

// Shard i is the i-th range; they tile the flat space and none is empty.
// Whole tensors (not kSplit): a shard's parts need not follow each other in the flat space; a shard
// that gets no tensor is an error that says so.
absl::StatusOr<std::vector<ShardRange>> Partition(const std::vector<int64_t>& tensor_counts,
                                                  int32_t shards,
                                                  PsPlacement placement = PsPlacement::kSplit);

// What worker and server must agree on before the first gradient.
struct PsLayout {
  PsRules rules;
  PsPlacement placement = PsPlacement::kSplit;
  std::vector<int64_t> tensor_counts;  // elements of each tensor, in flat order
  int32_t shards = 1;
  int32_t world_size = 1;
  // [tensor]: elements of a row of those that are tables (rows.h), 0 for the others; empty: none
  // is.
  std::vector<int64_t> row_elements = {};
};
// "sync, sums in rank order, f32, sgd ..., 4810 parameters in 6 tensors, split, 2 shards, 4
// workers" REQUIRES: CountElements is OK.
std::string Describe(const PsLayout& layout);
// Equal exactly when every field is equal, each tensor's count included.
uint64_t FingerprintOf(const PsLayout& layout);
// The same whatever the number of shards and their placement: what a shard's state belongs to.
uint64_t StateFingerprintOf(const PsLayout& layout);

}  // namespace lockstep
