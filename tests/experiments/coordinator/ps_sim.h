// ps_sim.h: whole runs of a parameter-server cluster in one thread from one seed: the real
// Membership and one real GroupState a member, around them a network, a disk and processes that are
// made up. Servers have copies of shards, each a version and a number, next = mix(number, step);
// updates go down the chain, its word comes back up, and only then do workers hear (SYNC). So a
// step that is lost, made twice or made from another state shows. The protocols of servers and
// workers are models here, for what the coordinator must do at any moment; the real ones are
// simulated in experiments/simulate. What must never happen is noted in `violations` with the
// moment.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "experiments/coordinator/membership.h"

namespace lockstep::sim {

struct PsSimOptions {
  uint64_t seed = 1;
  Ps::Policy policy = Ps::CHAIN;
  int replicas = 1;
  Ps::OnWorkerLoss on_worker_loss = Ps::REPLACE;
  int workers = 2;
  int servers = 3;
  int64_t steps = 30;
  int server_kills = 0;
  int worker_kills = 0;
  int long_freezes = 0;           // of servers, beyond the lease
  bool in_turn = false;           // server_kills are a rolling restart, each after the one before
  bool during_rebuild = false;    // all but the first fault come shortly after a group broke
  bool damaged_snapshot = false;  // the newest cut of the first restore can't be read
};

struct PsSimResult {
  absl::Status outcome;
  std::vector<std::string> violations;
  std::vector<std::string> lines;
  int64_t elapsed_ms = 0;
  int64_t epochs = 0;
  bool ended = false;         // the coordinator stopped and every process that lives is through
  bool restored = false;      // some epoch began with snapshots
  std::set<uint64_t> finals;  // numbers of the heads of a complete run
};

PsSimResult SimulatePs(const PsSimOptions& options);

// The number of a shard after `steps` updates.
uint64_t UndisturbedShard(int64_t steps);

}  // namespace lockstep::sim
