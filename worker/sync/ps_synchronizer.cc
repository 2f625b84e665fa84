#include "worker/sync/ps_synchronizer.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lockstep {

absl::StatusOr<int64_t> PsSynchronizer::Begin(std::span<float> parameters) {
  facts_.addition_order = options_.addition_order;
  if (options_.optimizer.has_value()) {
    optimizer_ =
        options_.make_optimizer(*options_.optimizer, static_cast<int64_t>(parameters.size()));
    sum_.resize(parameters.size());
  }
  if (rank_ == 0 && options_.first_group) {
    ASSIGN_OR_RETURN(facts_.link, client_->MeasureLink());
  }
  ASSIGN_OR_RETURN(const ResumePoint at, FindResume());
  if (at.pull) {
    RETURN_IF_ERROR(at.step == 0 ? TakeStartValues(parameters)
                                 : client_->Pull(at.step, parameters));
  }
  began_ = true;
  return at.step;
}

absl::StatusOr<ResumePoint> PsSynchronizer::FindResume() const {
  const int64_t own = options_.held.step;
  if (client_->initialized()) {
    return client_->Resume(own == kNoState ? std::nullopt : std::optional<int64_t>(own),
                           options_.held.rewound);
  }
  if (own > 0) {
    return absl::DataLossError(absl::StrCat("worker ", rank_, " has made step ", own,
                                            ", but some shard has no start values"));
  }
  return ResumePoint{.step = 0, .pull = true};
}

absl::Status PsSynchronizer::TakeStartValues(std::span<float> parameters) {
  if (rank_ == 0 && !client_->initialized()) {
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
  if (optimizer_ == nullptr) return client_->Pull(step, parameters);
  RETURN_IF_ERROR(client_->Pull(step, sum_));
  return optimizer_->Apply(sum_, parameters);
}

// A pull that was cut short wrote into the parameters.
HeldState PsSynchronizer::Held(int64_t step) const {
  HeldState held = {.step = began_ ? step : options_.held.step,
                    .versions = client_->versions(),
                    .rewound = options_.held.rewound && !began_};
  if (client_->torn()) held.step = kNoState;
  return held;
}

std::span<const float> PsSynchronizer::optimizer_state() const {
  return optimizer_ != nullptr ? optimizer_->state() : std::span<const float>();
}

}  // namespace lockstep
