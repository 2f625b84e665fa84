#include "allreduce/exact.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/numeric/exact.h"
#include "base/status.h"

namespace lockstep {

absl::Status ExactAllReduce::Run(Dtype dtype, void* values, std::span<const int64_t> tensor_counts,
                                 double divisor) {
  non_finite_.clear();
  if (!HasExact(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("EXACT all-reduce, rank ", communicator_->rank(),
                                                   ": ", NameOf(dtype),
                                                   " has no exact sum; use f32, f16 or bf16"));
  }
  const int64_t count = std::accumulate(tensor_counts.begin(), tensor_counts.end(), int64_t{0});
  const int64_t blocks = CountExactBlocks(tensor_counts);
  // They only grow: buckets of several sizes take turns.
  exponents_.resize(std::max(exponents_.size(), static_cast<size_t>(blocks)));
  quantised_.resize(std::max(quantised_.size(), static_cast<size_t>(count)));
  const std::span<int32_t> exponents(exponents_.data(), static_cast<size_t>(blocks));
  const std::span<int64_t> quantised(quantised_.data(), static_cast<size_t>(count));

  const int32_t n = communicator_->contributors();
  const bool contributes = communicator_->rank() < n;
  if (contributes) ExactExponents(dtype, values, tensor_counts, exponents);
  RETURN_IF_ERROR(
      Annotate(communicator_->AllReduce(exponents.data(), blocks, Dtype::kI32, ReduceOp::kMax),
               "EXACT, exponents"));
  if (contributes) {
    ExactQuantise(dtype, values, tensor_counts, exponents, {.world_size = n}, quantised);
  }
  RETURN_IF_ERROR(
      Annotate(communicator_->AllReduce(quantised.data(), count, Dtype::kI64, ReduceOp::kSum),
               "EXACT, values"));
  if (!contributes) return absl::OkStatus();
  ExactRestore(dtype, quantised, tensor_counts, exponents, {.world_size = n, .divisor = divisor},
               values);
  NoteNonFinite(tensor_counts, exponents);
  return absl::OkStatus();
}

void ExactAllReduce::NoteNonFinite(std::span<const int64_t> tensor_counts,
                                   std::span<const int32_t> exponents) {
  auto block = exponents.begin();
  for (size_t tensor = 0; tensor < tensor_counts.size(); ++tensor) {
    const auto end = block + CountExactBlocks(tensor_counts.subspan(tensor, 1));
    if (std::find(block, end, kNonFiniteBlock) != end) {
      non_finite_.push_back(static_cast<int>(tensor));
    }
    block = end;
  }
}

}  // namespace lockstep
