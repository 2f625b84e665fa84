#include "ps_server/service/server_faults.h"

#include <utility>

namespace lockstep {
namespace {

std::string_view NameOf(CrashPoint point) {
  for (const CrashPointName& known : kCrashPoints) {
    if (known.point == point) return known.name;
  }
  return "";
}

bool FillsDisk(Fault::Kind kind) { return kind == Fault::DISK_FULL; }

}  // namespace

void ServerFaults::Plan(std::unique_ptr<FaultPlan> plan) {
  MutexLock lock(&mu_);
  plan_ = std::move(plan);
}

void ServerFaults::At(CrashPoint point, int64_t step) {
  MutexLock lock(&mu_);
  if (plan_ == nullptr || plan_->empty()) return;
  for (const PlannedFault& fault : plan_->Due(step, FillsDisk)) {
    plan_->Record(fault, step);
    disk_.FillUp(DurationMs(fault.fault.for_()).value_or(1));
  }
  for (const PlannedFault& fault : plan_->DueAt(NameOf(point), step)) plan_->Inject(fault, step);
  for (const PlannedFault& fault : plan_->Due(step, StrikesProcess)) plan_->Inject(fault, step);
}

}  // namespace lockstep
