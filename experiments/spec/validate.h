// validate.h: is an experiment complete, within its ranges, free of contradictions, made of built
// features?
// Errors: all at once, each with its place. Pure: no I/O, no threads.
#pragma once

#include <vector>

#include "experiments/spec/place.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// `complete`: the text was read to its end, so that a missing field is missing and not just unread.
std::vector<SpecError> Validate(const Experiment& experiment, const Places& places, bool complete);

// Settings that change nothing in this experiment. Means something only where Validate finds no
// error.
std::vector<SpecError> UnusedSettings(const Experiment& experiment, const Places& places);

}  // namespace lockstep
