// plan.h: from a valid experiment to its runs, in the order in which they happen.
// Blocks follow each other; in each, every variant runs once per seed, in random order, so that a
// slow drift of the machine meets all variants alike. The order comes from a fixed seed: it is the
// same every time.
// Pure: no I/O, no threads.
#pragma once

#include <vector>

#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// Blocks count from 0; the first blocks do not depend on how many follow. record_dir is left to the
// coordinator. REQUIRES: valid, defaults filled in (spec.h: LoadSpec does both).
std::vector<RunConfig> PlanRuns(const Experiment& experiment);

}  // namespace lockstep
