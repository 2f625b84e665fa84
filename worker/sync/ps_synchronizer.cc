#include "worker/sync/ps_synchronizer.h"

#include "base/status.h"

namespace lockstep {

absl::Status PsSynchronizer::Begin(std::span<float> parameters) {
  facts_.addition_order = options_.addition_order;
  if (rank_ == 0) {
    ASSIGN_OR_RETURN(facts_.link, client_->MeasureLink());
    // What is sent must stay as it is until the pull is back, and the pull writes elsewhere.
    start_values_.assign(parameters.begin(), parameters.end());
    RETURN_IF_ERROR(client_->Init(start_values_));
  }
  std::vector<float>
      dropped;  // without the broadcast the pull only says that the servers are ready
  if (!options_.broadcast_start) dropped.resize(parameters.size());
  RETURN_IF_ERROR(client_->Pull(0, options_.broadcast_start ? parameters : dropped));
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
