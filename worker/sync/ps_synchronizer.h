// ps_synchronizer.h: gradients go to the parameter servers, bucket by bucket; the servers apply
// them with their optimizer, and every worker fetches the parameters. Synchronous: once every
// worker's are there, so all fetch the same. Asynchronous: each worker's on their own, so a worker
// may fetch what others have changed meanwhile. With the optimizer on the worker servers only sum,
// and every worker makes the same update of its own copy. In a later group the servers still have
// what was applied, so a worker goes on from its own parameters where those are of the step that
// the servers name, and fetches them otherwise. Errors: the client's. Paper: Li et al., Scaling
// Distributed Machine Learning with the Parameter Server, OSDI 2014.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps_server/client/ps_client.h"
#include "worker/sync/local_optimizer.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

struct PsSynchronizerOptions {
  std::string addition_order = {};  // of the servers' sums, for the record
  bool broadcast_start = true;      // false: every worker keeps its own values until the first pull
  bool first_group = true;          // of the run: rank 0 measures its link
  HeldState held = {};              // from the group before
  std::optional<OptimizerOptions> optimizer = {};  // on the worker; unset: on the server
  OptimizerFactory make_optimizer = MakeHostOptimizer;
};

class PsSynchronizer final : public Synchronizer {
 public:
  // `client` is connected; rank 0 sends the start values. The spans given to GradientReady must
  // outlive this object or the Finish of their step.
  PsSynchronizer(std::unique_ptr<PsClient> client, int rank, PsSynchronizerOptions options = {})
      : client_(std::move(client)), rank_(rank), options_(std::move(options)) {}

  absl::StatusOr<int64_t> Begin(std::span<float> parameters) override;
  absl::Status GradientReady(int64_t step, const Bucket& bucket,
                             std::span<float> gradients) override;
  absl::Status Finish(int64_t step, std::span<float> gradients,
                      std::span<float> parameters) override;
  SetUpFacts set_up() const override { return facts_; }
  void LogMessages(MessageLog* /*log*/) override {}
  HeldState Held(int64_t step) const override;
  std::span<const float> optimizer_state() const override;
  Traffic traffic() const override { return client_->traffic(); }

 private:
  absl::StatusOr<ResumePoint> FindResume() const;
  absl::Status TakeStartValues(std::span<float> parameters);

  std::vector<float> start_values_;  // what the client sends must outlive it
  std::unique_ptr<PsClient> client_;
  const int rank_;
  const PsSynchronizerOptions options_;
  std::unique_ptr<LocalOptimizer> optimizer_;  // null: on the server
  std::vector<float> sum_;                     // of the step, for optimizer_
  bool began_ = false;                         // the parameters are those of this group
  SetUpFacts facts_;
};

}  // namespace lockstep
