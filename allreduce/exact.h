// exact.h: an all-reduce whose bits do not depend on the order of additions (base/numeric/exact.h):
// one round of MAX over the blocks' exponents (i32), then one of SUM over int64, 8 bytes an
// element. So every algorithm, chunk size, channel count and bucket cut gives the same result.
// Errors: the communicator's. Threads: as the communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "allreduce/communicator.h"
#include "base/numeric/dtype.h"

namespace lockstep {

class ExactAllReduce {
 public:
  // `communicator` must outlive this object.
  explicit ExactAllReduce(Communicator* communicator) : communicator_(communicator) {}

  // values[i] = (sum over contributors) / divisor. `tensor_counts`: elements of each tensor in
  // `values`, in order. Ranks that only sum pass null values. Buffers are kept between calls.
  absl::Status Run(Dtype dtype, void* values, std::span<const int64_t> tensor_counts,
                   double divisor);
  // Of the last Run: indices into tensor_counts of tensors with a block that is not finite on some
  // rank, ascending.
  const std::vector<int>& non_finite() const { return non_finite_; }

 private:
  void NoteNonFinite(std::span<const int64_t> tensor_counts, std::span<const int32_t> exponents);

  Communicator* const communicator_;
  std::vector<int32_t> exponents_;
  std::vector<int64_t> quantised_;
  std::vector<int> non_finite_;
};

}  // namespace lockstep
