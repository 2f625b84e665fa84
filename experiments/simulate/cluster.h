// cluster.h: a whole parameter-server run in one thread from one seed: coordinator, servers and
// workers with their real state machines, a simulated network, clocks, processes and disk around
// them, a plan of what goes wrong, and an onlooker that checks what was promised (audit.h). The
// same options and plan give the same run, event for event. Times are virtual.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/limits.h"
#include "experiments/simulate/coordinator.h"
#include "experiments/simulate/network.h"
#include "experiments/simulate/plan.h"
#include "experiments/simulate/server.h"
#include "experiments/simulate/worker.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

// How its processes are made; tests put broken ones in their place.
struct SimMakers {
  std::function<std::unique_ptr<SimCoordinator>(const SimContext&, const MembershipConfig&,
                                                SimCoordinator::Events)>
      coordinator;
  std::function<std::unique_ptr<SimServer>(const SimContext&, SimServerOptions, SimDisk*,
                                           SimServerEvents)>
      server;
  std::function<std::unique_ptr<SimWorker>(const SimContext&, SimWorkerOptions, const SimModel&,
                                           SimWorkerEvents)>
      worker;
};
SimMakers RealMakers();

struct ClusterOptions {
  uint64_t seed = 1;  // of model, step times, latencies and clocks
  RunConfig run;      // world_size, servers, train.steps, variant.ps
  Limits limits;
  SimNetworkOptions network;
  std::vector<int64_t> tensor_counts;
  StepTimes step_times;
  bool colocated = false;    // worker i on the host of server i % servers; else own hosts
  double spawn_ms = 120;     // until a replacement runs, at most
  double end_ms = 60'000;    // a run that takes longer hangs
  int64_t versions_max = 0;  // audit: kVersionsMax when 0; < 0: no audit
  // Called once, before the run: for networks that are not alike everywhere.
  std::function<void(SimNetwork*)> shape;
  SimMakers makers = RealMakers();
};
// Hosts: the coordinator's, the servers', then the workers' (unless they share).
int32_t HostOfServer(int32_t index);
int32_t HostOfWorker(const ClusterOptions& options, int32_t index);

struct ClusterResult {
  absl::Status outcome;             // of the run, as the coordinator has it
  std::vector<std::string> broken;  // promises
  std::vector<std::string> lines;   // the coordinator's, for the user
  int64_t epochs = 0;
  double elapsed_ms = 0;
  double training_ms = 0;  // from the first Go to the last worker's last step
  int64_t steps = 0;       // finished by every worker
  int64_t attempts = 0;    // gradients begun, by all workers together
  // While all worked: from the first Go until the first worker had made its last step.
  double all_ms = 0;
  int64_t all_steps = 0;        // of all workers together
  int64_t updates = 0;          // reported by all shards together
  double update_staleness = 0;  // mean over them
  double loss = 0;
  int64_t events = 0;
  int64_t messages = 0;
  int64_t sent_bytes = 0;
};

ClusterResult RunCluster(const ClusterOptions& options, const Plan& plan);

}  // namespace lockstep
