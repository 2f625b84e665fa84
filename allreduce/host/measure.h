// measure.h: what a message costs on a link (base/link_cost.h), by ping-pong between ranks 0 and 1
// through the executor, so that its own work counts as it does in a collective. alpha is half the
// median round trip of empty messages, beta the slope from there to large ones, never below 0.
// Errors: the executor's. Threads: one.
#pragma once

#include "absl/status/statusor.h"
#include "allreduce/host/executor.h"
#include "allreduce/transport/link.h"
#include "base/clock.h"
#include "base/link_cost.h"

namespace lockstep {

// REQUIRES: link.rank() 0 or 1, whose numbers only rank 0's are meant for use; `call` without data,
// its `count` u8 are the large message and fit into one tile.
absl::StatusOr<LinkCost> MeasureLinkCost(const Link& link, const Clock& clock, ExecuteCall call,
                                         HostExecutor* executor);

}  // namespace lockstep
