#include "experiments/analyse/traffic_count.h"

#include <algorithm>
#include <cstdint>

namespace lockstep {
namespace {

Count CountWorker(const RunRecord& run, const MemberRecord& worker) {
  Count count;
  for (const StepDone& step : worker.steps) {
    if (step.step() <= WarmupSteps(run.steps()) || IsTakenOver(step)) continue;
    count.Add(step.traffic());
    ++count.steps;
  }
  return count;
}

// An Applied event counts exactly its own step: all pushes of it, and the pulls and parameters of
// the version that it made.
Count CountServer(const RunRecord& run, const MemberRecord& server) {
  if (!server.steps.empty()) return CountWorker(run, server);
  Count count;
  const int64_t left_out = WarmupSteps(run.steps());
  int64_t last = left_out;
  for (const Applied& applied : server.applied) {
    if (applied.step() <= left_out) continue;
    count.Add(applied.traffic());
    last = std::max(last, applied.step());
  }
  count.steps = static_cast<double>(last - left_out);
  return count;
}

template <typename CountMember>
RoleCount CountRole(const std::vector<const RunRecord*>& runs,
                    std::vector<MemberRecord> RunRecord::*members, CountMember count) {
  RoleCount role;
  for (const RunRecord* run : runs) {
    role.member.resize(std::max(role.member.size(), (run->*members).size()));
    for (size_t i = 0; i < (run->*members).size(); ++i) {
      const Count one = count(*run, (run->*members)[i]);
      role.member[i].Add(one);
      role.all.Add(one);
    }
  }
  return role;
}

}  // namespace

void Count::Add(const TrafficCount& traffic) {
  in += static_cast<double>(traffic.received_bytes());
  out += static_cast<double>(traffic.sent_bytes());
}

void Count::Add(const Count& other) {
  in += other.in;
  out += other.out;
  steps += other.steps;
}

RoleCount CountWorkers(const std::vector<const RunRecord*>& runs) {
  return CountRole(runs, &RunRecord::workers, CountWorker);
}

RoleCount CountServers(const std::vector<const RunRecord*>& runs) {
  return CountRole(runs, &RunRecord::servers, CountServer);
}

}  // namespace lockstep
