// server_faults.h: the planned faults of one server process: where its protocol comes to a point,
// at a step, it kills or freezes itself, after the record says so. Threads: At from any.
#pragma once

#include <cstdint>
#include <memory>

#include "base/member/fault_plan.h"
#include "base/sync.h"
#include "ps_server/core/crash_point.h"

namespace lockstep {

class ServerFaults {
 public:
  // Until then nothing is planned.
  void Plan(std::unique_ptr<FaultPlan> plan);
  // A KILL, FREEZE or RESTART of a step strikes where the server first comes to it; a CRASH_POINT
  // at its point. Does not return if this process dies.
  void At(CrashPoint point, int64_t step);

 private:
  Mutex mu_;
  std::unique_ptr<FaultPlan> plan_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lockstep
