// fault_plan.h: the planned faults of one member: which are due at a point of a step, each once,
// and those that a process does to itself: it kills or freezes itself, so that they need no
// privilege and come at the planned point of the same step in every run. A step of a server is the
// version of its own shard. Each is recorded as Injected before it takes effect. A frozen process
// goes on when a timer of the kernel sends it SIGCONT: nothing of its own can run meanwhile. A
// fault whose step was taken over from a peer strikes at the next one. Threads: Due, DueAt and
// Inject one at a time, in any thread; records are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/member/record_writer.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// "500ms", "2s" in ms; nullopt: not a duration above 0.
std::optional<int64_t> DurationMs(const std::string& text);

// KILL, FREEZE, RESTART: what a process does to itself.
bool StrikesProcess(Fault::Kind kind);
// DROP, DUPLICATE, CORRUPT, DELAY: what its link does to a message.
bool StrikesMessage(Fault::Kind kind);
// CRASH_POINT: a server kills itself where its protocol is at the fault's `point`.
bool StrikesPoint(Fault::Kind kind);
// LEAVE and JOIN: what a worker does in order, and is no failure.
bool IsLeave(Fault::Kind kind);
bool IsJoin(Fault::Kind kind);
// Every server leaves and is started again, one after the other: what the coordinator does.
bool RestartsAllServers(const Fault& fault);

struct PlannedFault {
  int index = 0;  // in the experiment's list
  Fault fault;
};

class FaultPlan {
 public:
  // Of `target`, e.g. "worker:2", "server:0". `records` must outlive it.
  FaultPlan(const Experiment& experiment, const std::string& target, RecordWriter* records);

  // A replacement starts after `step`. What was planned up to the step it makes first struck its
  // predecessor, which would otherwise be replaced for ever.
  void BeginAfter(int64_t step);
  // The same, known rather than guessed: what `records`, of all processes that were this member
  // before (ReadMember), say has struck.
  void SkipStruck(const std::vector<Record>& records);
  // Those of `kinds` that are due before the forward pass of `step`, or with `bucket` once that one
  // is exchanged. Each is returned once.
  std::vector<PlannedFault> Due(int64_t step, bool (*kinds)(Fault::Kind),
                                std::optional<int> bucket = std::nullopt);
  // CRASH_POINTs of `point` that are due at `step`. Each is returned once.
  std::vector<PlannedFault> DueAt(std::string_view point, int64_t step);
  // Of `kinds`, the next one of the plan, at whatever step. Each is returned once.
  std::optional<PlannedFault> TakeNext(bool (*kinds)(Fault::Kind));
  // Writes that it happens.
  void Record(const PlannedFault& planned, int64_t step) const;
  // Records it and does it to this process. REQUIRES: StrikesProcess or StrikesPoint. Returns after
  // a FREEZE only.
  void Inject(const PlannedFault& planned, int64_t step) const;
  bool empty() const { return faults_.empty(); }
  // Whether any fault of `kinds` is planned, due or not.
  bool Has(bool (*kinds)(Fault::Kind)) const;

 private:
  RecordWriter* const records_;
  std::vector<PlannedFault> faults_;
  std::vector<uint8_t> over_;  // [i of faults_]: it has struck, here or in a predecessor
};

}  // namespace lockstep
