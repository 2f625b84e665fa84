// limits_proto.h: the spec's limits message and the Limits struct, field by field by name.
#pragma once

#include "base/limits.h"
#include "proto/experiment.pb.h"

namespace lockstep {

// Unset fields keep the struct's defaults. REQUIRES: values within kLimitRows (experiments/spec
// checks).
Limits LimitsFrom(const LimitsSpec& spec);

}  // namespace lockstep
