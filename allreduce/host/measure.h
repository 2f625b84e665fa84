// measure.h: what a message costs on a link, by messages between the first two ranks of a group
// through the executor, so that its own work counts as it does in a collective.
//   alpha    half the median round trip of empty messages
//   beta     the slope from there to large ones, never below 0
//   overhead what each further message of a burst adds: how long a port is busy with one; at most
//            alpha, whose rest is latency
//   gamma    the time of folding f32 in memory, per byte
// Errors: the executor's. Threads: one.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/host/executor.h"
#include "allreduce/host/session.h"
#include "allreduce/schedule/cost.h"
#include "base/link_cost.h"

namespace lockstep {

// Who measures: `rank` is 0 or 1 among `members`, the link's ranks. Rank 0's numbers are meant for
// use.
struct Measurement {
  HostSession* session = nullptr;
  std::vector<int> members;
  int rank = 0;
};

struct Repeats {
  int warm_ups = 0;
  int samples = 1;
};
// Of this rank's part of a collective, run that often. Runs follow each other, so that every rank
// is in them from the start.
absl::StatusOr<double> MedianRunNs(HostSession* session, const RankPart& part,
                                   const ExecuteCall& call, const Repeats& repeats);

// REQUIRES: `call` without data, its `count` u8 are the large message and fit into one tile.
absl::StatusOr<LinkCost> MeasureLinkCost(const Measurement& measurement, const ExecuteCall& call);
absl::StatusOr<CostModel> MeasureCostModel(const Measurement& measurement, const ExecuteCall& call);

}  // namespace lockstep
