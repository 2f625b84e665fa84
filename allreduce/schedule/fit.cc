#include "allreduce/schedule/fit.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr int64_t kChunksMax = std::numeric_limits<int32_t>::max();
constexpr int64_t kCountMax = std::numeric_limits<int16_t>::max();

}  // namespace

absl::Status CheckWorld(const char* generator, int32_t world_size, int32_t channels,
                        int32_t channels_max) {
  if (world_size >= 1 && channels >= 1 && channels <= channels_max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(generator, ": world_size ", world_size, " and channels ", channels,
                   " must both be at least 1, channels at most ", channels_max));
}

absl::Status CheckRoot(const char* generator, int32_t root, int32_t world_size) {
  if (root >= 0 && root < world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(generator, ": root ", root, " is no rank of 0..", world_size - 1));
}

absl::Status CheckHalves(const char* generator, Collective collective) {
  if (collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
      collective == Collective::kAllGather) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(generator, ": no ", NameOf(collective),
                                                 "; there is all_reduce, reduce_scatter, "
                                                 "all_gather"));
}

absl::Status CheckChunks(const char* generator, int32_t channels, int32_t chunks_per_channel) {
  if (chunks_per_channel < 1) {
    return absl::InvalidArgumentError(absl::StrCat(generator, ": ", chunks_per_channel,
                                                   " chunks per channel, must be at least 1"));
  }
  return CheckFits(generator, int64_t{channels} * chunks_per_channel);
}

absl::Status CheckFits(const char* generator, int64_t chunks, int64_t count) {
  if (chunks > kChunksMax) {
    return absl::ResourceExhaustedError(absl::StrCat(generator, ": needs ", chunks,
                                                     " chunks, a schedule has at most ", kChunksMax,
                                                     "; use fewer ranks or channels"));
  }
  if (count > kCountMax) {
    return absl::ResourceExhaustedError(absl::StrCat(generator, ": needs messages of ", count,
                                                     " chunks, a move counts at most ", kCountMax,
                                                     "; use fewer ranks"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
