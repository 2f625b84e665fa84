// rebuild_sim.h: a whole run in one thread from one seed: the real Membership and one real
// GroupState a worker, around them a clock, a network and processes that are made up. Streams and
// connections are first in first out, each message late by its own random time. A worker goes
// through what worker/main.cc does: join, connect, hand-over, steps, leave a dead group. Its model
// is a number: next = mix(number, step, world size), so that a step made twice, left out or made
// from another state shows. What must never happen is noted in `violations` with the moment.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/member/group_state.h"
#include "experiments/coordinator/membership.h"

namespace lockstep::sim {

struct SimOptions {
  uint64_t seed = 1;
  AllReduceSync::OnLoss on_loss = AllReduceSync::REPLACE;
  int workers = 3;
  int64_t steps = 30;
  int kills = 0;
  int short_freezes = 0;  // below the lease
  int long_freezes = 0;
  int lost_messages = 0;        // of exchanges
  bool during_rebuild = false;  // all but the first fault come shortly after a group broke
};

struct SimResult {
  absl::Status outcome;
  std::vector<Failure> failures;
  std::vector<std::string> violations;
  std::vector<std::string> lines;
  int64_t elapsed_ms = 0;
  int64_t epochs = 0;
  bool ended = false;         // the coordinator stopped and every process that lives is through
  std::set<uint64_t> finals;  // states of the workers of a complete run
};

SimResult Simulate(const SimOptions& options);

// The state after `steps` undisturbed steps.
uint64_t Undisturbed(int workers, int64_t steps);

}  // namespace lockstep::sim
