// unreached.h: the planned faults that did not happen in a run, from its record files: a plan whose
// events never came proves nothing. Threads: any. Errors: none; a member without a record reached
// nothing.
#pragma once

#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace lockstep {

// One sentence each, in the plan's order: "fault[1], KILL of worker:2 at step 30, did not happen:
// the last step of worker 2 is 12". REQUIRES: the run's processes have ended.
std::vector<std::string> UnreachedFaults(const RunConfig& config);

}  // namespace lockstep
