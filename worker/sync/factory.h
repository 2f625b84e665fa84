// factory.h: the synchronizer that a variant asks for, with its links up.
// Errors: DeadlineExceeded and Unavailable name the members that could not be reached.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/nccl/place.h"
#include "allreduce/transport/fault_link.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/socket.h"
#include "proto/coordinator.pb.h"
#include "worker/bucket/bucket.h"
#include "worker/sync/local_optimizer.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

// What other libraries' engines need to know of this process.
struct EnginePlace {
  std::string library_dir;  // the program's folder
  int mpi_world_size = 0;   // as mpirun told it; 0: not started by mpirun
  NcclPlace nccl;           // its library and variables
};

struct SyncContext {
  int index = 0;       // of the member: a worker's, or a summing server's
  bool trains = true;  // false: a rank of PS_EXCHANGE that only sums
  std::string token;
  Listener listener;                 // this member's, bound before it joined
  std::vector<NamedTensor> tensors;  // of the flat arena, in forward order
  std::vector<Bucket> buckets;       // that tile it
  Limits limits;
  const Clock* clock = nullptr;
  const Abort* abort = nullptr;   // of the group
  HeldState held = {};            // from the group before
  ArmedFaults* faults = nullptr;  // of messages; null: none is planned
  EnginePlace engine_place = {};
  OptimizerFactory make_optimizer = MakeHostOptimizer;
};

// Position of the worker `index` among the workers of the group: its rank.
int RankOf(const Start& start, int index);

// How many of them there are.
int WorkersOf(const Start& start);

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(const Start& start,
                                                               SyncContext context);

}  // namespace lockstep
