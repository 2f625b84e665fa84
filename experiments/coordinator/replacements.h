// replacements.h: the processes that were asked for in the place of lost members, each until it
// joins. One that is lost before its group stands counts as a failed one: there are at most
// kReplacementsMax in a row for a member, so that a member whose start always fails is not started
// for ever. Pure: no I/O, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "experiments/coordinator/first_cause.h"

namespace lockstep {

class Replacements {
 public:
  // `member` is lost, or its replacement is. False: it has had its replacements, which all ended
  // before their group stood, the last one like this.
  bool Ask(const MemberId& member, int64_t now_ns, const std::string& how) {
    Asked& asked = asked_[member];
    asked.how = how;
    asked.since_ns = now_ns;
    asked.awaited = ++asked.count <= kReplacementsMax;
    return asked.awaited;
  }
  void Joined(const MemberId& member) { asked_[member].awaited = false; }
  // A group stands that it is in.
  void Stood(const MemberId& member) { asked_.erase(member); }
  // Asked for, and not here yet.
  bool Awaits(const MemberId& member) const {
    const auto asked = asked_.find(member);
    return asked != asked_.end() && asked->second.awaited;
  }
  // Awaited for `limit_ms` and more: they are awaited no longer.
  std::vector<MemberId> GiveUpLate(int64_t now_ns, int64_t limit_ms) {
    std::vector<MemberId> late;
    for (auto& [member, asked] : asked_) {
      if (!asked.awaited || (now_ns - asked.since_ns) / kNsPerMs < limit_ms) continue;
      asked.awaited = false;
      asked.how = "it did not join";
      late.push_back(member);
    }
    return late;
  }
  // How the last one ended.
  std::string how(const MemberId& member) const {
    const auto asked = asked_.find(member);
    return asked == asked_.end() ? "" : asked->second.how;
  }

 private:
  static constexpr int kReplacementsMax = 3;
  struct Asked {
    int count = 0;
    bool awaited = false;
    int64_t since_ns = 0;
    std::string how;
  };
  std::map<MemberId, Asked> asked_;
};

}  // namespace lockstep
