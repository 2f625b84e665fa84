#include "ps_server/core/partition.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"
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
      range->parts.push_back(
          {.tensor = static_cast<int32_t>(i), .flat = position, .offset = offset, .count = count});
      offset += count;
      position += count;
    }
  }
}

absl::StatusOr<std::vector<ShardRange>> Split(const std::vector<int64_t>& tensor_counts,
                                              int64_t total, int32_t shards) {
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

// [tensor]: its shard; -1: it is empty.
std::vector<int32_t> ShardOfTensors(const std::vector<int64_t>& tensor_counts, int32_t shards,
                                    PsPlacement placement) {
  std::vector<size_t> order(tensor_counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (placement == PsPlacement::kBySize) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return tensor_counts[a] > tensor_counts[b]; });
  }
  std::vector<int32_t> shard_of(tensor_counts.size(), -1);
  std::vector<int64_t> elements(static_cast<size_t>(shards), 0);
  for (const size_t i : order) {
    if (tensor_counts[i] == 0) continue;
    auto shard = static_cast<int64_t>(i) % shards;
    if (placement == PsPlacement::kBySize) {
      shard = std::min_element(elements.begin(), elements.end()) - elements.begin();
    }
    shard_of[i] = static_cast<int32_t>(shard);
    elements[static_cast<size_t>(shard)] += tensor_counts[i];
  }
  return shard_of;
}

absl::StatusOr<std::vector<ShardRange>> PlaceWholeTensors(const std::vector<int64_t>& tensor_counts,
                                                          int32_t shards, PsPlacement placement) {
  // Compared before anything is allocated for a number of shards that may come from the network.
  if (shards < 1 || shards > static_cast<int64_t>(tensor_counts.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensor_counts.size(), " whole tensors, placed ", NameOf(placement),
                     ", cannot be spread over ", shards, " shards; use 1 to ", tensor_counts.size(),
                     " servers, or placement SPLIT"));
  }
  const std::vector<int32_t> shard_of = ShardOfTensors(tensor_counts, shards, placement);
  std::vector<ShardRange> ranges(static_cast<size_t>(shards));
  int64_t flat = 0;
  for (size_t i = 0; i < tensor_counts.size(); ++i) {
    if (shard_of[i] < 0) continue;
    ShardRange& range = ranges[static_cast<size_t>(shard_of[i])];
    if (range.parts.empty()) range.offset = flat;
    range.parts.push_back(
        {.tensor = static_cast<int32_t>(i), .flat = flat, .offset = 0, .count = tensor_counts[i]});
    range.count += tensor_counts[i];
    flat += tensor_counts[i];
  }
  for (size_t k = 0; k < ranges.size(); ++k) {
    if (!ranges[k].parts.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "shard ", k, " of ", shards, " gets no tensor when ", tensor_counts.size(),
        " are placed whole, ", NameOf(placement), "; use fewer servers, or placement SPLIT"));
  }
  return ranges;
}

}  // namespace

const char* NameOf(PsPlacement placement) {
  switch (placement) {
    case PsPlacement::kSplit:
      return "split";
    case PsPlacement::kInTurn:
      return "in turn";
    case PsPlacement::kBySize:
      return "by size";
  }
  return "no placement";
}

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
                                                  int32_t shards, PsPlacement placement) {
  ASSIGN_OR_RETURN(const int64_t total, CountElements(tensor_counts));
  if (placement == PsPlacement::kSplit) return Split(tensor_counts, total, shards);
  return PlaceWholeTensors(tensor_counts, shards, placement);
}

std::string Describe(const PsLayout& layout) {
  const int64_t total =
      std::accumulate(layout.tensor_counts.begin(), layout.tensor_counts.end(), int64_t{0});
  return absl::StrCat(Describe(layout.rules), ", ", total, " parameters in ",
                      layout.tensor_counts.size(), " tensors, ", NameOf(layout.placement), ", ",
                      layout.shards, " shards, ", layout.world_size, " workers");
}

uint64_t FingerprintOf(const PsLayout& layout) {
  std::vector<int64_t> words = {static_cast<int64_t>(StateFingerprintOf(layout)),
                                static_cast<int64_t>(layout.placement), layout.shards};
  words.insert(words.end(), layout.row_elements.begin(), layout.row_elements.end());
  return Fingerprint64(std::as_bytes(std::span(words)));
}

uint64_t StateFingerprintOf(const PsLayout& layout) {
  std::vector<int64_t> words = {static_cast<int64_t>(FingerprintOf(layout.rules)),
                                layout.world_size};
  words.insert(words.end(), layout.tensor_counts.begin(), layout.tensor_counts.end());
  return Fingerprint64(std::as_bytes(std::span(words)));
}

}  // namespace lockstep
