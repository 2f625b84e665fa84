// factory.h: the synchronizer that a variant asks for, with its links up.
// Errors: DeadlineExceeded and Unavailable name the members that could not be reached.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/socket.h"
#include "proto/coordinator.pb.h"
#include "worker/bucket/bucket.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

struct SyncContext {
  int rank = 0;
  std::string token;
  Listener listener;                // this worker's, bound before it joined
  std::vector<TensorSpan> tensors;  // of the flat arena, in forward order
  Limits limits;
  const Clock* clock = nullptr;
  const Abort* abort = nullptr;
};

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(const Start& start,
                                                               SyncContext context);

}  // namespace lockstep
