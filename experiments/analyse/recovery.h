// recovery.h: what losses cost in runs that went on after them: how long nobody trained, how long a
// shard lacked a copy, what was acknowledged and is gone, what was done again, and what all of that
// leaves of the throughput. And the pushes that came late (ps_k_of_n).
// Units: as in proto/record.proto. Errors: none. Threads: any; pure.
#pragma once

#include <vector>

#include "experiments/analyse/run_record.h"
#include "proto/record.pb.h"

namespace lockstep {

// Fills in result->recovery, unless the group stayed the same.
void AggregateRecovery(const std::vector<const RunRecord*>& runs, VariantResult* result);
// Fills in result->pushes of ps_k_of_n.
void AggregatePushes(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
