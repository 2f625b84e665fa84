// rebuild.h: what the coordinator knows of one rebuild, from the first sign that a group is over
// until the next one stands: what broke it or who joins it, since when; and how that is told. Pure:
// no I/O, no clock. Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiments/coordinator/first_cause.h"

namespace lockstep {

// Replaced by how the process ended, once that is known.
inline constexpr char kStreamBroke[] = "was lost: its connection to the coordinator broke";

class Rebuild {
 public:
  explicit Rebuild(int64_t now_ns) : since_ns_(now_ns) {}

  int64_t since_ns() const { return since_ns_; }
  // A member is lost, or reports that its group is dead (then it is a consequence).
  void Add(Failure cause) { causes_.push_back(std::move(cause)); }
  const std::vector<Failure>& causes() const { return causes_; }
  // A member that was absent is here again: that alone is reason enough for a new group.
  void Join(const MemberId& member) { joined_.push_back(member); }
  // A member has left as planned; `what`: "leaves", "restarts".
  void Leave(const MemberId& member, const std::string& what) { left_.push_back({member, what}); }
  // Members left or joined, and that is all.
  bool none_lost() const;
  // The process of a lost member ended like this.
  void Explain(const MemberId& member, const std::string& how);
  // A loss whose process has not been seen to end.
  bool Unexplained() const;
  // "worker 2 is lost (was killed by SIGKILL)", or "worker 2 leaves", "worker 2 joins", or what the
  // first one to report says.
  std::string Cause() const;
  // Everything, as the failures of a run that could not be rebuilt because of `why`: first cause
  // first. REQUIRES: a cause, or one that joined or left.
  std::vector<Failure> GiveUp(const std::vector<MemberId>& declared, const std::string& why) const;

 private:
  int64_t since_ns_;
  std::vector<Failure> causes_;
  std::vector<MemberId> joined_;
  std::vector<std::pair<MemberId, std::string>> left_;
};

// Gives `how` as the end of a member whose stream broke first.
void ExplainEnd(const MemberId& member, const std::string& how, std::vector<Failure>* failures);

}  // namespace lockstep
