// computer.h: what a worker computes with: oneDNN, or the GPU that spec or flags ask for, with the
// optimizer that runs there. Errors: device_choice.h's, open_device.h's. Threads: one.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/member/device_choice.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"
#include "worker/gpu/gpu_memory.h"
#include "worker/gpu/open_device.h"
#include "worker/model/math.h"
#include "worker/model/model.h"
#include "worker/sync/local_optimizer.h"

namespace lockstep {

// What this process was started with.
struct ComputePlace {
  DeviceWords words = {};
  GpuPlace gpu = {};
  const Abort* abort = nullptr;  // ends waits for the GPU; null: nothing does but their deadline
};

struct Computer {
  std::unique_ptr<Math<float>> math = nullptr;
  GpuMemory* gpu = nullptr;  // that of `math`; null: the host's

  // For `model`, which computes with `math` and outlives what the factory makes.
  OptimizerFactory OptimizerFor(Model* model) const;
};

// For worker `index`; says in `started` what it is. `clock` and place.abort must outlive it.
absl::StatusOr<Computer> MakeComputer(const Experiment& experiment, const ComputePlace& place,
                                      int index, const Clock& clock, Started* started);

}  // namespace lockstep
