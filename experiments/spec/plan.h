// plan.h: from a valid experiment to its runs, in the order in which they happen.
// Blocks follow each other; in each, every variant runs once with every number of workers and every
// seed, in random order, so that a slow drift of the machine meets all of them alike. The order
// comes from a fixed seed: it is the same every time.
// Pure: no I/O, no threads.
#pragma once

#include <string>
#include <vector>

#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// Blocks count from 0; the first blocks do not depend on how many follow. record_dir is left to the
// coordinator. REQUIRES: valid, defaults filled in (spec.h: LoadSpec does both).
std::vector<RunConfig> PlanRuns(const Experiment& experiment);

// What tells this run's setting from the experiment's others: "ring", or "ring-n4" where there are
// several numbers of workers.
std::string RunId(const Experiment& experiment, const Variant& variant, int workers);

}  // namespace lockstep
