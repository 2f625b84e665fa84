// server_faults.h: the planned faults of one server process: where its protocol comes to a point,
// at a step, it kills or freezes itself, or fills up its disk, after the record says so. Threads:
// At from any.
#pragma once

#include <cstdint>
#include <memory>

#include "base/member/fault_plan.h"
#include "base/sync.h"
#include "ps_server/core/crash_point.h"
#include "ps_server/service/disk_faults.h"

namespace lockstep {

class ServerFaults {
 public:
  // `disk` must outlive it.
  explicit ServerFaults(DiskFaults* disk) : disk_(*disk) {}

  // Until then nothing is planned.
  void Plan(std::unique_ptr<FaultPlan> plan);
  // A KILL, FREEZE, RESTART or DISK_FULL of a step strikes where the server first comes to it; a
  // CRASH_POINT at its point. Does not return if this process dies.
  void At(CrashPoint point, int64_t step);

 private:
  DiskFaults& disk_;
  Mutex mu_;
  std::unique_ptr<FaultPlan> plan_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lockstep
