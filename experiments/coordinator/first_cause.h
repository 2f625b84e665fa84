// first_cause.h: of all that went wrong, what went wrong first. A member's own error or death comes
// before the errors of those who only noticed it; when all only noticed that somebody did not
// answer, that one is the cause. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

struct MemberId {
  Role role = WORKER;
  int index = 0;
  friend bool operator==(const MemberId& a, const MemberId& b) {
    return a.role == b.role && a.index == b.index;
  }
  friend bool operator<(const MemberId& a, const MemberId& b) {
    return std::make_pair(a.role, a.index) < std::make_pair(b.role, b.index);
  }
  std::string ToString() const;  // "worker 2"; of no role: "mpirun"
};

// Not a member: the process that starts the workers where their engine is MPI.
inline constexpr MemberId kMpirun = {ROLE_UNSPECIFIED, 0};

struct Failure {
  MemberId member;
  absl::Status status;
  int64_t step = 0;
  bool consequence = false;
  bool lost = false;  // it did not report this itself: it is dead, silent or did not answer
  std::vector<std::string> blamed = {};  // of a consequence: whom its message names
};

// In the order in which they were reported, except that causes precede consequences. May add the
// member of `declared` that the others wait for.
void PutFirstCauseFirst(const std::vector<MemberId>& declared, std::vector<Failure>* failures);

}  // namespace lockstep
