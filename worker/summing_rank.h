// summing_rank.h: a server of PS_EXCHANGE, the parameter server's exchange as a schedule: a rank
// after the workers that makes the same collective calls with a workspace, and so only sums. It
// knows tensors and buckets from the same spec; data and optimizer stay with the workers.
// Errors and threads: step_loop.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/step_loop.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<StepLoop>> MakeSummingRank(const Start& start, LoopContext context);

}  // namespace lockstep
