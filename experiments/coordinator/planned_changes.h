// planned_changes.h: which members are to join or to be restarted in order, out of a run's fault
// plan, and when: JOIN of a worker once every worker that is there has finished the step before;
// RESTART of "servers" one server after the other from then on. (A worker leaves by itself.)
// Pure: no I/O, no clock. Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "experiments/coordinator/first_cause.h"
#include "proto/experiment.pb.h"

namespace lockstep {

class PlannedChanges {
 public:
  explicit PlannedChanges(const Experiment& experiment);

  // The run begins without it.
  bool JoinsLater(const MemberId& member) const { return late_.contains(member); }
  // Workers that are to join now that all have finished `step`. Each JOIN is returned once.
  std::vector<MemberId> TakeJoins(int64_t step);
  // The next one of `servers` that is to be restarted, if that is due. It comes again until
  // Restarted says that it is being done.
  std::optional<MemberId> RestartDue(int64_t step, int servers) const;
  void Restarted(int servers);
  void GiveUpRestarts() { restarts_.clear(); }

 private:
  struct Join {
    MemberId member;
    int64_t at_step = 0;
    bool taken = false;
  };
  std::vector<Join> joins_;
  std::set<MemberId> late_;
  std::vector<int64_t> restarts_;  // steps that restarts of all servers begin at, not over yet
  int next_server_ = 0;            // of the first of them
};

}  // namespace lockstep
