// aggregate.h: all runs of one variant with one number of workers (its blocks and seeds) as one row
// of the comparison.
// Times leave out the warm-up (WarmupSteps). samples/s of a run: samples of all workers over the
// time from the first measured step's start to the last one's end, probes in between included; of a
// block: all its seeds together. A step lasts from its earliest rank's start to its latest rank's
// end; where ranks share no step (none, asynchronous) each rank's own time counts.
// Units: as in proto/record.proto. A part that nothing measures is left unset, never zero.
// Errors: InvalidArgument when there is no run, runs are of different variants, or the way has no
// byte formula. Pure apart from the snapshot reader. Threads: any.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "experiments/analyse/replicas.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {

// `id` is the variant's name; a caller that sweeps workers makes it unique. `ranked` is false for
// the control alone. What needs other variants is left to CompareLearning (learning.h). If no run
// is complete, what the unfinished ones measured is used, and `complete` says so; otherwise
// unfinished runs count for the replica check only.
absl::StatusOr<VariantResult> Aggregate(const std::vector<RunRecord>& runs,
                                        const SnapshotReader& snapshots);

}  // namespace lockstep
