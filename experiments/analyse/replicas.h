// replicas.h: are the workers' copies the same, since when not, and how far apart.
// Identical: at every probe of every run all workers show the same hash of parameters, and of
// optimizer state where workers hold it, and at least one probe after a step is of all workers.
// Unchecked: no difference, but no such probe either. Distance: the largest |a - b| / max|w| over
// pairs of workers, max|w| over all of them, from the parameter copies of the probe; where all
// parameter hashes are equal it is 0, with or without copies. Errors: none; a distance that cannot
// be had is null, with its reason. Threads: any. Memory: one probe's copies of all workers at a
// time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {

// The parameter copy that `probed` of this run's worker `rank` points to. Empty function: no copies
// kept.
using SnapshotReader = std::function<absl::StatusOr<std::vector<float>>(
    const RunRecord& run, int rank, const Probed& probed)>;

// Reads one copy out of `params_path` (<record file>.params). Errors: NotFound without the file,
// DataLoss when it is shorter than the probe says, InvalidArgument when none was written.
absl::StatusOr<std::vector<float>> ReadSnapshot(const std::string& params_path,
                                                const Probed& probed);

// The largest |a - b| / max|w| over all pairs; 0 when all are zero.
// Errors: InvalidArgument when lengths differ or a value is not finite.
absl::StatusOr<double> LargestRelativeDistance(const std::vector<std::vector<float>>& copies);

// Fills in replicas, final_hash and repeated_hash_equal. `runs`: all runs of the variant. The
// probes shown are those of the first run with a difference, else of the first complete run.
void AggregateReplicas(const std::vector<const RunRecord*>& runs, const SnapshotReader& snapshots,
                       VariantResult* result);

}  // namespace lockstep
