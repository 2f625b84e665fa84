// learning.h: what learning costs under each way, compared where steps do not compare: one
// asynchronous update is not one synchronous step. All losses are smoothed (loss.h); variants with
// the same number of workers are compared with each other; one whose loss is not finite at the end
// is left out.
// Target: train.target_loss, else the loss that every synchronous variant has reached after 3/4 of
// its steps (without any, every ranked one), rounded up to three digits: all of them reach it, and
// late enough to mean something. Time and samples to it are medians over seeds; a seed that ran in
// several blocks counts once, with its median, and has reached the target when all its runs have.
// Errors: none; what cannot be compared stays unset. Pure.
#pragma once

#include <vector>

#include "experiments/analyse/run_record.h"

namespace lockstep {

inline constexpr int kSureSeeds = 5;  // with fewer, time and samples to a target are preliminary

// Fills in loss.at_equal_samples, loss.at_equal_time and target of every variant in `file`.
// REQUIRES: `file` holds the Aggregate of all `runs`.
void CompareLearning(const std::vector<RunRecord>& runs, RunFile* file);

}  // namespace lockstep
