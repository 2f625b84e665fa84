// chaos.h: many runs of the simulated cluster, each with a plan of disturbances from its own seed,
// each checked against what was promised; one that broke a promise is told with its plan, shrunk to
// what is needed. A seed says everything about its run: how many workers, servers and steps, where
// they run, the mode and policy unless they are given, and the plan. Bounds: a run keeps at most
// kVersionsMax versions of all shards (audit.h), one that would make more is cut off there; seeds
// are run one after the other. Pure: no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/simulate/cluster.h"
#include "experiments/simulate/plan.h"

namespace lockstep {

struct ChaosOptions {
  std::optional<Ps::Mode> mode = {};      // unset: the seed chooses
  std::optional<Ps::Policy> policy = {};  // unset: the seed chooses SNAPSHOT or CHAIN
  SimMakers makers = RealMakers();
};

// A run that a seed stands for.
struct ChaosCase {
  uint64_t seed = 0;
  ClusterOptions cluster;
  PlanOptions plan_options;
  Plan plan;
  // "sync, chain of 2 (aggregated), 3 workers, 3 servers, 9 steps"
  std::string ToString() const;
};
ChaosCase DrawCase(const ChaosOptions& options, uint64_t seed);

struct ChaosFailure {
  uint64_t seed = 0;
  std::string what;  // ChaosCase::ToString()
  Plan plan;
  Plan shrunk;
  std::vector<std::string> broken;  // promises, by the shrunk plan
};
struct ChaosReport {
  int64_t runs = 0;
  int64_t completed = 0;    // the rest stopped, and said why
  int64_t undisturbed = 0;  // plans that cost no group its life
  int64_t epochs = 0;       // of all runs
  int64_t events = 0;
  double virtual_s = 0;
  std::vector<ChaosFailure> failures;
};

// Seeds first, first + 1, ...; `progress` is called after each run. Ends early after
// `failures_max`.
ChaosReport RunChaos(const ChaosOptions& options, uint64_t first, int64_t seeds,
                     int64_t failures_max, const std::function<void(const ChaosReport&)>& progress);

}  // namespace lockstep
