// factory.h: the synchronizer that a variant asks for, with its links up.
// Errors: DeadlineExceeded and Unavailable name the members that could not be reached.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/numeric/dtype.h"
#include "base/socket.h"
#include "proto/coordinator.pb.h"
#include "worker/bucket/bucket.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

struct SyncContext {
  int index = 0;       // a worker's rank, or a summing server's number
  bool trains = true;  // false: a rank of PS_EXCHANGE that only sums
  std::string token;
  Listener listener;                 // this member's, bound before it joined
  std::vector<NamedTensor> tensors;  // of the flat arena, in forward order
  std::vector<Bucket> buckets;       // that tile it
  Limits limits;
  const Clock* clock = nullptr;
  const Abort* abort = nullptr;
};

// REQUIRES: a type that gradients can travel in (experiments/spec refuses the others).
Dtype DtypeFrom(DtypeSpec spec);

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(const Start& start,
                                                               SyncContext context);

}  // namespace lockstep
