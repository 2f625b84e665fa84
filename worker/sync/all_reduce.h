// all_reduce.h: gradients are summed by a collective, bucket by bucket; every worker applies the
// same sum with the same rule to the same parameters, so all replicas stay the same bits (PyTorch
// DDP's scheme). Paper: Li et al., PyTorch Distributed, VLDB 13(12), 2020.
#pragma once

#include <memory>
#include <span>

#include "allreduce/communicator.h"
#include "worker/sync/sgd_state.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

class AllReduceSynchronizer final : public Synchronizer {
 public:
  AllReduceSynchronizer(std::unique_ptr<Communicator> communicator, const SgdOptions& options,
                        int64_t parameters)
      : communicator_(std::move(communicator)), sgd_(options, parameters) {}

  absl::Status Begin(std::span<float> parameters) override;
  absl::Status GradientReady(int64_t step, const Bucket& bucket,
                             std::span<float> gradients) override;
  absl::Status Finish(int64_t step, std::span<float> gradients,
                      std::span<float> parameters) override;
  std::span<const float> optimizer_state() const override { return sgd_.velocity(); }
  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  std::unique_ptr<Communicator> communicator_;
  SgdState sgd_;
};

}  // namespace lockstep
