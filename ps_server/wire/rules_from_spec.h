// rules_from_spec.h: what a spec's `ps { }` means to the parameter servers: the rules and the
// placement that a run's workers and servers must have alike, so both take them from here. Errors:
// InvalidArgument for a wire dtype that no parameter server speaks (experiments/spec refuses it
// before). Pure.
#pragma once

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "ps_server/core/partition.h"
#include "ps_server/core/rules.h"

namespace lockstep {

// REQUIRES: run.variant() has ps, and run.world_size() is the declared number of workers.
absl::StatusOr<PsRules> PsRulesFrom(const RunConfig& run);
PsPlacement PsPlacementFrom(const RunConfig& run);

}  // namespace lockstep
