// synchronizer.h: the only place where the ways to stay in step differ. Nothing above it (model,
// data) and nothing beside it (metrics, probe) knows which one runs. Gradients and parameters are
// views of the worker's flat arena; the gradient of a step is the mean over this worker's samples.
// After Finish the parameters are those of the next step. One object serves one group of workers;
// what its worker takes to the next group is HeldState. Errors: InvalidArgument (ranks disagree
// about the call), DeadlineExceeded and Unavailable (name the member), DataLoss (the state that the
// group should begin with is not there). Threads: one call at a time, not always from the same
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/host/message_log.h"
#include "base/link_cost.h"
#include "base/traffic.h"
#include "worker/bucket/bucket.h"

namespace lockstep {

inline constexpr int64_t kNoState = -1;

// What outlives a group at its worker.
struct HeldState {
  int64_t step = kNoState;  // whose parameters it has; kNoState: none, or parts of two
  std::vector<float> optimizer_state = {};
  std::vector<int64_t> versions = {};  // [shard]: the newest that parameter servers gave it
  bool rewound = false;                // since then the servers went back to a snapshot
};

class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  // Brings what the group begins with into `parameters`: in the run's first group rank 0's, in a
  // later one the state that the run goes on with. Returns the last step that is part of it.
  virtual absl::StatusOr<int64_t> Begin(std::span<float> parameters) = 0;
  // Backward has filled this bucket's slice of `gradients`: its exchange may start.
  // Called in the same bucket order on every rank.
  virtual absl::Status GradientReady(int64_t step, const Bucket& bucket,
                                     std::span<float> gradients) = 0;
  // Completes the step: gradients exchanged, optimizer applied, `parameters` ready for step + 1.
  virtual absl::Status Finish(int64_t step, std::span<float> gradients,
                              std::span<float> parameters) = 0;

  // Measured and predicted once, during Begin; for the record.
  struct SetUpFacts {
    std::optional<LinkCost> link;  // rank 0 alone
    std::string addition_order;    // SetUp.addition_order of proto/record.proto
  };
  virtual SetUpFacts set_up() const = 0;
  // From now on notes the messages of collectives in `log`; null: none. Does nothing where there
  // are none.
  virtual void LogMessages(MessageLog* log) = 0;

  // After the last call, which may have failed: what the worker holds, if `step` is the last one
  // that it finished.
  virtual HeldState Held(int64_t step) const = 0;
  // Optimizer state that this worker holds; empty when a server holds it.
  virtual std::span<const float> optimizer_state() const = 0;
  virtual Traffic traffic() const = 0;
};

}  // namespace lockstep
