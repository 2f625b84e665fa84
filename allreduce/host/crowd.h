// crowd.h: do the ranks of a group share cores, and what does a message then cost all of them
// (schedule/work.h)? Measured by recursive doublings, in which all ranks talk at once. Errors: the
// executor's. Threads: one.
#pragma once

#include "absl/status/statusor.h"
#include "allreduce/host/executor.h"
#include "allreduce/host/measure.h"
#include "allreduce/schedule/cost.h"

namespace lockstep {

// Every rank of the group takes part, `measurement.rank` of measurement.members; rank 0's numbers
// are meant for use. `cost`: the link's without crowd; `call` as for MeasureCostModel.
absl::StatusOr<CostModel> MeasureCrowd(const Measurement& measurement, const ExecuteCall& call,
                                       CostModel cost);

}  // namespace lockstep
