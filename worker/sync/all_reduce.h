// all_reduce.h: gradients are summed by a collective, bucket by bucket; every worker applies the
// same sum with the same rule to the same parameters, so all replicas stay the same bits (PyTorch
// DDP's scheme). A bucket travels in the wire's dtype: it is converted, summed and converted back;
// the optimizer stays f32. In EXACT order the collective also divides, so the bits are the same for
// every algorithm, bucket and channel count. On a rank that only sums (PS_EXCHANGE's servers) the
// same calls work on a workspace whose content means nothing. A rebuilt group begins with a
// hand-over: every worker takes the state of one, whole or not at all. Errors: the communicator's,
// with members in place of ranks; Internal (the source of a hand-over is at another step); DataLoss
// where an EXACT sum has an element that is not finite. Paper: Li et al., PyTorch Distributed, VLDB
// 13(12), 2020.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allreduce/communicator.h"
#include "allreduce/exact.h"
#include "base/numeric/dtype.h"
#include "worker/sync/local_optimizer.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

// What a rebuilt group begins with.
struct HandOver {
  int source = 0;       // rank whose state all take
  int64_t step = 0;     // last finished one of that state, as the coordinator says
  HeldState held = {};  // this worker's own
};

struct AllReduceOptions {
  std::vector<NamedTensor> tensors = {};  // of the arena
  std::vector<Bucket> buckets = {};       // that tile it
  OptimizerOptions optimizer = {};        // divisor: world_size for MEAN, 1 for SUM
  OptimizerFactory make_optimizer = MakeHostOptimizer;
  bool exact = false;  // EXACT order; f32, f16 and bf16 only
  Dtype wire_dtype = Dtype::kF32;
  bool broadcast_start = true;  // false: every worker keeps its own start values
  std::vector<std::string> members =
      {};  // [rank], for errors; unset: "worker 0", ..., "server 0", ...
  std::optional<HandOver> hand_over = {};  // unset: the run begins, with rank 0's start values
};

class AllReduceSynchronizer final : public Synchronizer {
 public:
  AllReduceSynchronizer(std::unique_ptr<Communicator> communicator, AllReduceOptions options);

  absl::StatusOr<int64_t> Begin(std::span<float> parameters) override;
  absl::Status GradientReady(int64_t step, const Bucket& bucket,
                             std::span<float> gradients) override;
  absl::Status Finish(int64_t step, std::span<float> gradients,
                      std::span<float> parameters) override;
  SetUpFacts set_up() const override { return facts_; }
  void LogMessages(MessageLog* log) override { communicator_->LogMessages(log); }
  HeldState Held(int64_t step) const override;
  std::span<const float> optimizer_state() const override { return optimizer_->state(); }
  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  bool contributes() const { return communicator_->rank() < communicator_->contributors(); }
  absl::Status Sum(const Bucket& bucket, float* values);
  absl::Status SumExact(const Bucket& bucket, void* values);
  absl::Status CheckExact(int64_t step, const Bucket& bucket) const;
  absl::Status TakeState(const HandOver& hand_over, std::span<float> parameters);
  absl::Status BlameMembers(const absl::Status& status) const;

  std::unique_ptr<Communicator> communicator_;
  const AllReduceOptions options_;
  ExactAllReduce exact_;
  const std::unique_ptr<LocalOptimizer> optimizer_;
  std::vector<std::byte> wire_;  // a bucket in the wire's dtype, unless that is f32
  SetUpFacts facts_;
};

}  // namespace lockstep
