#include "ps_server/core/partition.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/fingerprint.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Every place where a shard may begin, in ascending order; the first is 0.
std::vector<int64_t> BlockStarts(const std::vector<int64_t>& tensor_counts) {
  std::vector<int64_t> starts;
  int64_t tensor_start = 0;
  for (const int64_t count : tensor_counts) {
    for (int64_t k = 0; k < count; k += kBlockElements) starts.push_back(tensor_start + k);
    tensor_start += count;
  }
  return starts;
}

// Index of the block start nearest to `position`.
int64_t NearestStart(const std::vector<int64_t>& starts, int64_t position) {
  const auto above = std::lower_bound(starts.begin(), starts.end(), position);
  if (above == starts.begin()) return 0;
  const int64_t index = above - starts.begin();
  if (above == starts.end()) return index - 1;
  const bool below_is_nearer = position - *(above - 1) <= *above - position;
  return below_is_nearer ? index - 1 : index;
}

void AddParts(const std::vector<int64_t>& tensor_counts, std::vector<ShardRange>* ranges) {
  auto range = ranges->begin();
  int64_t position = 0;  // in the flat space
  for (size_t i = 0; i < tensor_counts.size(); ++i) {
    for (int64_t offset = 0; offset < tensor_counts[i];) {
      if (position == range->offset + range->count) ++range;
      const int64_t count =
          std::min(tensor_counts[i] - offset, range->offset + range->count - position);
      range->parts.push_back({static_cast<int32_t>(i), offset, count});
      offset += count;
      position += count;
    }
  }
}

}  // namespace

absl::StatusOr<int64_t> CountElements(const std::vector<int64_t>& tensor_counts) {
  int64_t total = 0;
  for (size_t i = 0; i < tensor_counts.size(); ++i) {
    if (tensor_counts[i] < 0 || tensor_counts[i] > kElementsMax - total) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", i, " of the layout has ", tensor_counts[i],
          " elements; expected at least 0 each and at most ", kElementsMax, " in all"));
    }
    total += tensor_counts[i];
  }
  if (total == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the layout has no elements in ", tensor_counts.size(), " tensors; expected at least 1"));
  }
  return total;
}

absl::StatusOr<std::vector<ShardRange>> Partition(const std::vector<int64_t>& tensor_counts,
                                                  int32_t shards) {
  ASSIGN_OR_RETURN(const int64_t total, CountElements(tensor_counts));
  const std::vector<int64_t> starts = BlockStarts(tensor_counts);
  const auto blocks = static_cast<int64_t>(starts.size());
  if (shards < 1 || shards > blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        total, " parameters have ", blocks, " blocks of at most ", kBlockElements,
        " elements and cannot be cut into ", shards, " shards; use 1 to ", blocks, " servers"));
  }
  std::vector<ShardRange> ranges;
  int64_t first = 0;  // block
  for (int32_t i = 0; i < shards; ++i) {
    int64_t end = blocks;
    if (i + 1 < shards) {
      // Each later shard needs a block of its own, whatever is nearest.
      const int64_t nearest =
          NearestStart(starts, total / shards * (i + 1) + total % shards * (i + 1) / shards);
      end = std::clamp(nearest, first + 1, blocks - (shards - 1 - i));
    }
    const int64_t end_element = end == blocks ? total : starts[static_cast<size_t>(end)];
    const int64_t offset = starts[static_cast<size_t>(first)];
    ranges.push_back({.offset = offset, .count = end_element - offset, .parts = {}});
    first = end;
  }
  AddParts(tensor_counts, &ranges);
  return ranges;
}

std::string Describe(const PsLayout& layout) {
  const char* order =
      layout.order == PsOrder::kExact ? "sums in exact order" : "sums in rank order";
  const int64_t total =
      std::accumulate(layout.tensor_counts.begin(), layout.tensor_counts.end(), int64_t{0});
  return absl::StrFormat(
      "%s, f32, %d parameters in %d tensors, %d shards, %d workers, sgd learning_rate %.9g "
      "momentum %.9g, sum divided by %.9g",
      layout.mode == PsMode::kAsync ? "async" : absl::StrCat("sync, ", order), total,
      layout.tensor_counts.size(), layout.shards, layout.world_size, layout.sgd.learning_rate,
      layout.sgd.momentum, layout.sgd.divisor);
}

uint64_t FingerprintOf(const PsLayout& layout) {
  std::vector<int64_t> words = {static_cast<int64_t>(layout.mode),
                                static_cast<int64_t>(layout.order),
                                layout.shards,
                                layout.world_size,
                                std::bit_cast<int32_t>(layout.sgd.learning_rate),
                                std::bit_cast<int32_t>(layout.sgd.momentum),
                                std::bit_cast<int32_t>(layout.sgd.divisor)};
  words.insert(words.end(), layout.tensor_counts.begin(), layout.tensor_counts.end());
  return Fingerprint64(std::as_bytes(std::span(words)));
}

}  // namespace lockstep
