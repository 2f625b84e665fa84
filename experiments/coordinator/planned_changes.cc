#include "experiments/coordinator/planned_changes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/member/fault_plan.h"

namespace lockstep {
namespace {

// experiments/spec has checked the target.
MemberId WorkerOf(const Fault& fault) {
  absl::string_view number = fault.target();
  int index = -1;
  if (absl::ConsumePrefix(&number, "worker:")) (void)absl::SimpleAtoi(number, &index);
  return {WORKER, index};
}

}  // namespace

PlannedChanges::PlannedChanges(const Experiment& experiment) {
  std::map<MemberId, std::pair<int64_t, bool>> first;  // step, and whether it joins then
  for (const Fault& fault : experiment.fault()) {
    if (RestartsAllServers(fault)) restarts_.push_back(fault.at().step());
    if (!IsJoin(fault.kind()) && !IsLeave(fault.kind())) continue;
    const MemberId worker = WorkerOf(fault);
    const std::pair<int64_t, bool> change = {fault.at().step(), IsJoin(fault.kind())};
    const auto [known, added] = first.emplace(worker, change);
    if (!added) known->second = std::min(known->second, change);
    if (IsJoin(fault.kind())) joins_.push_back({.member = worker, .at_step = fault.at().step()});
  }
  for (const auto& [worker, change] : first) {
    if (change.second) late_.insert(worker);
  }
  std::sort(restarts_.begin(), restarts_.end());
}

std::vector<MemberId> PlannedChanges::TakeJoins(int64_t step) {
  std::vector<MemberId> due;
  for (Join& join : joins_) {
    if (join.taken || step + 1 < join.at_step) continue;
    join.taken = true;
    due.push_back(join.member);
  }
  return due;
}

std::optional<MemberId> PlannedChanges::RestartDue(int64_t step, int servers) const {
  if (restarts_.empty() || step + 1 < restarts_.front() || next_server_ >= servers) {
    return std::nullopt;
  }
  return MemberId{SERVER, next_server_};
}

void PlannedChanges::Restarted(int servers) {
  if (++next_server_ < servers) return;
  next_server_ = 0;
  restarts_.erase(restarts_.begin());
}

}  // namespace lockstep
