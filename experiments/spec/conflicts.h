// conflicts.h: rules that concern more than one field. Errors name every value that takes part.
// Pure: no I/O, no threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/spec/place.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// The bundled digits (data/): 8x8 pixels, ten classes.
inline constexpr int kDigitsInputs = 64;
inline constexpr int kDigitsClasses = 10;
inline constexpr int kDigitsImages = 1'797;

// Of a message, beside its chunk: at most (ps_server/wire/frame.h, and the collectives' is
// smaller).
inline constexpr int64_t kMessageHeaderBytes = 128;

void CheckConflicts(const Experiment& experiment, const Places& places,
                    std::vector<SpecError>* errors);

}  // namespace lockstep
