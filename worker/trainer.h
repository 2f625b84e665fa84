// trainer.h: a worker's gradients: its share of each global batch, forward and backward, and the
// loop around them. Errors: InvalidArgument (model, data and batch don't fit), computer.h's and
// step_loop.h's.
// Threads: as step_loop.h.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/computer.h"
#include "worker/step_loop.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<StepLoop>> MakeTrainer(const Start& start, LoopContext context);

// Computes with `computer`, whatever the spec says.
absl::StatusOr<std::unique_ptr<StepLoop>> MakeTrainerOn(Computer computer, const Start& start,
                                                        LoopContext context);

}  // namespace lockstep
