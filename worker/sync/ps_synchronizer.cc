#include "worker/sync/ps_synchronizer.h"

#include "base/status.h"

namespace lockstep {

absl::Status PsSynchronizer::Begin(std::span<float> parameters) {
  if (rank_ != 0) return client_->Pull(0, parameters);
  // What is sent must stay as it is until the pull is back, and the pull writes to `parameters`.
  start_values_.assign(parameters.begin(), parameters.end());
  RETURN_IF_ERROR(client_->Init(start_values_));
  RETURN_IF_ERROR(client_->Pull(0, parameters));
  start_values_ = {};
  return absl::OkStatus();
}

absl::Status PsSynchronizer::GradientReady(int64_t step, const Bucket& bucket,
                                           std::span<float> gradients) {
  return client_->Push(
      step, bucket.offset,
      gradients.subspan(static_cast<size_t>(bucket.offset), static_cast<size_t>(bucket.count)));
}

absl::Status PsSynchronizer::Finish(int64_t step, std::span<float> /*gradients*/,
                                    std::span<float> parameters) {
  return client_->Pull(step, parameters);
}

}  // namespace lockstep
