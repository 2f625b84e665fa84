// staleness.h: how old the parameters were that an asynchronous update was computed from, and how
// far workers ran apart.
// Two counts, never mixed. Update staleness: others' updates applied to the shard between the
// worker's last read of it and its own update; no bound, mean (n-1)(1 - gap / cycle), where n - 1
// is the mean number of others at work: fewer than all once a worker that ran ahead has ended.
// Clock staleness: steps by which the slowest worker is behind, as far as that read shows; what a
// bound limits. gap: from a worker's own update at a shard to its next read there; cycle: from one
// of its updates there to the next. The first 10 steps are left out: workers start together.
// Papers: Ho et al., NIPS 2013 (clocks); Zhang et al., IJCAI 2016 (update counts).
// Errors: none; nothing recorded leaves the field unset. Pure.
#pragma once

#include <vector>

#include "experiments/analyse/run_record.h"

namespace lockstep {

inline constexpr int kStalenessWarmupSteps = 10;

// ps_async alone: every server's histograms, the law beside the mean, and how many of the updates
// were applied. `applied` is that of the shard which is furthest from what was expected.
void AggregateStaleness(const std::vector<const RunRecord*>& runs, VariantResult* result);

// Proof of synchrony, of the first complete run: states of the shared parameters (synchronous: one
// a step; asynchronous: one an update; none: 0), and the largest difference between two workers'
// finished steps at any moment, which synchrony keeps at most 1.
void AggregateSynchrony(const std::vector<const RunRecord*>& runs, VariantResult* result);

}  // namespace lockstep
