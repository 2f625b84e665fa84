// exit_code.h: what a process tells its caller (DESIGN: exit codes), and the code that fits a
// Status.
#pragma once

#include "absl/status/status.h"

namespace lockstep {

enum ExitCode : int {
  kExitOk = 0,
  kExitPromiseBroken = 1,
  kExitUsage = 2,
  kExitMemberLost = 3,
  kExitEnvironment = 4,
  kExitInternal = 5,
  kExitInterrupted = 130,
  kExitTerminated = 143,
};

ExitCode ExitCodeFor(const absl::Status& status);

}  // namespace lockstep
