// plan.h: what is to go wrong in a simulated run, as data: drawn from a seed, written as text,
// shrunk while it still shows what it showed. The same plan and seed give the same run. Times are
// true milliseconds; a disturbance may count from the run's start or from the moment in which an
// epoch's group is declared dead, so that faults during recovery are hit and not hoped for. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/numeric/random.h"
#include "ps_server/core/crash_point.h"

namespace lockstep {

enum class Trouble : uint8_t {
  kKill,        // SIGKILL of a member
  kHost,        // a whole host is gone: everything on it, and nothing says so
  kFreeze,      // SIGSTOP, then SIGCONT after `for_ms`: above the lease it wakes as a zombie
  kCrashPoint,  // a server dies at `point`, at `step` or later
  kSlowNode,    // a member takes `amount` times as long for everything
  kCut,         // nothing gets from `target` to `peer`, one way
  kPartition,   // nothing gets through between `target` and `peer`, both ways
  kGray,     // data from and to `target` is slowed by `amount` ms, 0: stopped; signs of life go on
  kFlap,     // a partition that comes and goes, three times
  kDelay,    // each message from `target` to `peer` is `amount` ms late
  kReorder,  // each message between the two is late by its own random time up to `amount` ms
  kClog,     // the ports of `target` are busy with the traffic of others
  kBreak,    // a stream between the two breaks, as after a loss that nobody makes good
  kDuplicate,  // the next `amount` frames of pushes from `target` are sent twice
  kDiskFull,   // the next `amount` snapshots of `target` don't fit the disk
  kSyncFails,  // the next `amount` snapshots of `target` can't be synced
  kTruncate,   // the newest snapshot of the shard of `target` is cut off at `amount` of its length
  kFlipBit,    // ... has another bit there
  kDrift,      // the clocks of `target` run `amount` times as fast
  kWallJump,   // the wall clock of `target` jumps by `amount` ms
};

// A member, by role and index; the coordinator is nobody's role.
struct TroubleTarget {
  enum class Role : uint8_t { kCoordinator, kServer, kWorker };
  Role role = Role::kServer;
  int32_t index = 0;
  bool operator==(const TroubleTarget&) const = default;
  std::string ToString() const;  // "server:1"
};

struct Disturbance {
  Trouble trouble = Trouble::kKill;
  TroubleTarget target = {};
  TroubleTarget peer = {};
  double at_ms = 0;
  int32_t after_loss = 0;  // 0: from the start; i: from the i-th time that a group is dead
  double for_ms = 0;
  double amount = 0;
  CrashPoint point = CrashPoint::kBeforeReceive;
  int64_t step = 0;

  bool operator==(const Disturbance&) const = default;
  // "at 340 ms: kill server:1"
  std::string ToString() const;
};
using Plan = std::vector<Disturbance>;

struct PlanOptions {
  int32_t workers = 3;
  int32_t servers = 3;
  int64_t steps = 10;
  double run_ms = 1'000;  // about how long the undisturbed run takes
  double lease_ms = 300;
  int32_t losses_max = 1;  // processes that a plan may end, or make silent beyond their lease
  int32_t others_max = 3;  // further disturbances
  bool lose_servers = true;
  bool lose_workers = true;
  bool snapshots = true;  // there are any, and the disk may go wrong: damage one at most
};
// Whether all of it together may cost a group its life. If not, nobody is silent for the lease,
// so whoever is lost was lost for nothing.
bool MayEndAGroup(const Plan& plan, double lease_ms);
Plan DrawPlan(const PlanOptions& options, uint64_t seed);
std::string ToString(const Plan& plan);  // a line each

// Leaves disturbances out, one by one, then halves times and amounts, as long as `fails` stays
// true. It asks at most `runs_max` times. REQUIRES: fails(plan).
Plan Shrink(const Plan& plan, const std::function<bool(const Plan&)>& fails, int runs_max = 200);

}  // namespace lockstep
