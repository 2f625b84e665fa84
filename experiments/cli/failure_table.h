// failure_table.h: what a struck run's records say, as one row, and all rows as a table.
// Detected: until the first survivor learnt of it (its group broke, or it ended with an error).
// Recovered: a rebuilt way, until the last survivor stood in its new group. Rates are of workers'
// finished steps: before, from the warm-up to the strike; after, from the recovery (went on: from
// the strike) to the end of the survivor that ended first. A rate of fewer than kRateStepsMin
// steps is left out. Units: as in proto/failures.proto. Pure. Threads: any.
#pragma once

#include <string>

#include "experiments/analyse/proto_json.h"
#include "experiments/cli/failure_run.h"
#include "proto/failures.pb.h"

namespace lockstep {

inline constexpr int kRateStepsMin = 10;
inline constexpr JsonKind kFailureJson = {"failures file", "lockstep.failures/1"};

FailureRow JudgeFailure(const FailureCase& failure, const StruckRun& run);

// What no way may do, whatever its policy: hang, or blame somebody who was not struck.
bool BreaksPromise(const FailureRow& row);

// Plain ASCII, at most kTerminalWidth wide.
std::string FailureTable(const FailureFile& file);

}  // namespace lockstep
