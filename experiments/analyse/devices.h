// devices.h: what the workers of a comparison computed with, as they recorded it. Pure.
#pragma once

#include <string>
#include <vector>

#include "experiments/analyse/run_record.h"

namespace lockstep {

// "GPU NVIDIA H200, math TF32, cuBLAS 13.0.2"; where workers differ, each kind with who had it:
// "...: worker 0, worker 2; CPU, math STRICT, oneDNN: worker 1". Empty: nobody recorded it.
std::string DevicesText(const std::vector<RunRecord>& runs);

}  // namespace lockstep
