// traffic_count.h: what members counted in the measured steps of several runs of one variant:
// warm-up left out, headers of ours included. Units: bytes. Pure.
#pragma once

#include <vector>

#include "experiments/analyse/run_record.h"

namespace lockstep {

// Sums over the measured steps of several runs, for one member or one role.
struct Count {
  double in = 0;
  double out = 0;
  double steps = 0;

  void Add(const TrafficCount& traffic);
  void Add(const Count& other);
};

// One Count a member of a role, over all runs, and their sum.
struct RoleCount {
  std::vector<Count> member;
  Count all;
};
RoleCount CountWorkers(const std::vector<const RunRecord*>& runs);
// An update's event counts exactly its own step; a server that only sums for a collective counts
// like a worker.
RoleCount CountServers(const std::vector<const RunRecord*>& runs);

}  // namespace lockstep
