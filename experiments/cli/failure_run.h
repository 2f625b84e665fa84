// failure_run.h: one run of `lockstep compare` as a process of its own, in which one member is
// struck from outside, with a signal: the same way for a server, a worker and the coordinator,
// which lives in the command. What happened is read from the run's record files and run.json. A
// frozen member stays frozen until the run is over; a frozen coordinator goes on when all members
// have ended, so that it can say what it saw. Nothing is left behind: members that outlive a killed
// coordinator are adopted (REQUIRES of main: PR_SET_CHILD_SUBREAPER) and waited for.
// Errors: as errno; Internal (it ended before it was struck); Cancelled (the user's). Threads: one,
// that of main.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"

namespace lockstep {

inline constexpr char kCoordinatorRole[] = "coordinator";

// Whom to strike, and how, in which run.
struct FailureCase {
  RunConfig config;  // block 0
  std::string id;    // "ring", or "ring-n4" where workers are swept
  std::string role;  // "server", "worker", "coordinator"
  int index = 0;
  Fault::Kind kind = Fault::KILL;  // or FREEZE
  int64_t step = 0;                // once every worker has finished it

  std::string Target() const;  // "worker 2", "coordinator"
};

// Kills, then freezes: the server in the middle (where there is any), the worker in the middle, the
// coordinator; of every variant with every number of workers, at the spec's first seed.
std::vector<FailureCase> FailureCases(const Experiment& experiment, int64_t step);

// All that one member wrote, a replacement's after its predecessor's.
struct MemberHistory {
  std::string name;  // "worker 2"
  std::vector<Record> records;
};

struct StruckRun {
  std::vector<MemberHistory> workers;  // [rank]
  std::vector<MemberHistory> servers;  // [index]
  int64_t strike_ns = 0;               // CLOCK_MONOTONIC, as in the records
  bool hung = false;                   // not over within every bound together; it was then killed
  int exit_code = 0;                   // of the command; where it was killed itself: the members'
  std::optional<RunFile> file;         // absent where the command could not write it
};

struct FailureHost {
  std::string program_dir;  // holds `lockstep`
  std::string dir;          // empty folder of this run
  const Clock* clock = nullptr;
  const Abort* abort = nullptr;
};

absl::StatusOr<StruckRun> RunAndStrike(const FailureCase& failure, const FailureHost& host);

}  // namespace lockstep
