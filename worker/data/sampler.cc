#include "worker/data/sampler.h"

#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/numeric/random.h"

namespace lockstep {
namespace {

// Apart from the streams of other uses of the same seed (worker/model/layer_stack.cc).
constexpr uint64_t kOrderStream = uint64_t{1} << 32;

}  // namespace

absl::StatusOr<Sampler> Sampler::Make(const SamplerOptions& options) {
  const int64_t samples = options.samples;
  const int64_t batch = options.global_batch;
  if (samples < 1 || samples > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data order: ", samples, " samples, expected 1 to 2^32 - 1"));
  }
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("data order: rank ", options.rank, " of ",
                                                   options.world_size, " does not exist"));
  }
  if (batch < 1 || batch > samples) {
    return absl::InvalidArgumentError(absl::StrCat("train.global_batch is ", batch,
                                                   ", but the data has ", samples,
                                                   " samples: choose 1 to ", samples));
  }
  if (!options.uneven_shares && batch % options.world_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("train.global_batch ", batch,
                                                   " is not divisible by ", options.world_size,
                                                   " workers: every worker takes an equal share"));
  }
  return Sampler(options);
}

std::string Sampler::Rule() const {
  const int64_t read = steps_per_epoch() * options_.global_batch;
  const int64_t dropped = options_.samples - read;
  if (dropped == 0) {
    return absl::StrCat("each epoch reads all ", read, " samples, each once by one worker");
  }
  return absl::StrCat("of ", options_.samples, " samples each epoch reads ", read,
                      ", each once by one worker, and drops the last ", dropped, " of its order");
}

// Fisher-Yates, from the end; a permutation depends on the seed and the epoch, not on earlier
// epochs.
void Sampler::Permute(int64_t epoch) {
  if (epoch == permuted_epoch_) return;
  order_.resize(static_cast<size_t>(options_.samples));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  Random random(options_.seed, kOrderStream + static_cast<uint64_t>(epoch));
  for (size_t left = order_.size(); left > 1; --left) {
    std::swap(order_[left - 1], order_[random.Below(static_cast<uint32_t>(left))]);
  }
  permuted_epoch_ = epoch;
}

std::vector<int64_t> Sampler::Batch(int64_t step) {
  CHECK_GE(step, 1);
  Permute(epoch(step));
  const int64_t start = (step - 1) % steps_per_epoch() * options_.global_batch;
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(rank_batch()));
  for (int64_t i = options_.rank; i < options_.global_batch; i += options_.world_size) {
    ids.push_back(order_[static_cast<size_t>(start + i)]);
  }
  return ids;
}

}  // namespace lockstep
