// ps_synchronizer.h: gradients go to the parameter servers, bucket by bucket; the servers apply the
// sum with their optimizer once every worker's are there, and every worker fetches the same
// parameters. Paper: Li et al., Scaling Distributed Machine Learning with the Parameter Server,
// OSDI 2014.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ps_server/client/ps_client.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

class PsSynchronizer final : public Synchronizer {
 public:
  // `client` is connected; rank 0 sends the start values. The spans given to GradientReady must
  // outlive this object or the Finish of their step.
  PsSynchronizer(std::unique_ptr<PsClient> client, int rank)
      : client_(std::move(client)), rank_(rank) {}

  absl::Status Begin(std::span<float> parameters) override;
  absl::Status GradientReady(int64_t step, const Bucket& bucket,
                             std::span<float> gradients) override;
  absl::Status Finish(int64_t step, std::span<float> gradients,
                      std::span<float> parameters) override;
  std::span<const float> optimizer_state() const override { return {}; }
  Traffic traffic() const override { return client_->traffic(); }

 private:
  std::vector<float> start_values_;  // what the client sends must outlive it
  std::unique_ptr<PsClient> client_;
  const int rank_;
};

}  // namespace lockstep
