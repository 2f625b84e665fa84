// sampler.h: which samples a rank reads at a step. Equal on every machine for equal options.
// Epoch e (from 0) is a permutation of all sample ids, drawn from (seed, e) alone. Step t (from 1)
// takes the next `global_batch` ids of it. Remainder rule: drop; ids at the end of a permutation
// that don't fill a global batch are not read in that epoch, so that each id occurs at most once an
// epoch. Rank r of n takes ids r, r + n, r + 2n, ... of the global batch: disjoint shards whose
// union is the same for every n. With n = 1 it is the single-process reference. A group that shrank
// keeps the global batch, so its shares may differ by one sample (uneven_shares). Errors:
// InvalidArgument (a batch that doesn't fit, n that doesn't divide it), with both numbers. Threads:
// one. As torch.utils.data.distributed.DistributedSampler with set_epoch called each epoch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

struct SamplerOptions {
  uint64_t seed = 1;
  int64_t samples = 0;       // of the data set, below 2^32
  int64_t global_batch = 0;  // samples per step over all ranks
  int32_t rank = 0;
  int32_t world_size = 1;
  bool uneven_shares = false;
};

class Sampler {
 public:
  static absl::StatusOr<Sampler> Make(const SamplerOptions& options);

  int64_t steps_per_epoch() const { return options_.samples / options_.global_batch; }
  int64_t epoch(int64_t step) const { return (step - 1) / steps_per_epoch(); }
  int64_t rank_batch() const {
    return (options_.global_batch - options_.rank + options_.world_size - 1) / options_.world_size;
  }
  // What an epoch covers, for people: "of 1797 samples each epoch reads 1792, each once by one
  // worker, and drops the last 5 of its order".
  std::string Rule() const;

  // Ids of this rank's samples at `step` (>= 1), rank_batch() of them. Any order of steps is
  // allowed.
  std::vector<int64_t> Batch(int64_t step);

 private:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}

  void Permute(int64_t epoch);

  SamplerOptions options_;
  int64_t permuted_epoch_ = -1;  // of order_
  std::vector<int64_t> order_;
};

}  // namespace lockstep
