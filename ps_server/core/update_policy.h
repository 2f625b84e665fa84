// update_policy.h: when a shard applies pushes, and whom a pull waits for: all that differs between
// the modes. Whatever the mode, a pull of step t is answered once its worker's push of t is
// applied. Deterministic: no I/O, no threads, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ps_server/core/staging.h"
#include "ps_server/core/update.h"

namespace lockstep {

// What a shard knows of one worker.
struct ShardWorker {
  struct Pull {
    int64_t step = 0;
    int64_t since_ns = 0;
  };
  int64_t incarnation = -1;
  int64_t last_step = 0;      // applied
  Staging staging;            // of last_step + 1
  int64_t push_start_ns = 0;  // its first chunk
  int64_t push_end_ns = 0;    // its newest one
  std::optional<Pull> pull;   // not answered yet
};

class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  // `worker`'s push has just become complete: whose pushes make an update now, in rank order; none
  // when more must come first.
  virtual std::vector<int32_t> Due(int32_t worker,
                                   const std::vector<ShardWorker>& workers) const = 0;
  // Whose unfinished pushes an unanswered pull of `worker` waits for, in rank order.
  virtual std::vector<int32_t> AwaitedBy(int32_t worker,
                                         const std::vector<ShardWorker>& workers) const = 0;
  // Whether a wait that expires is the end for all workers, or for the one that waited.
  virtual bool AllWaitTogether() const = 0;

  // For what a policy measures: a reply has got its version (not that of the start values, which
  // everybody reads); an update is being applied.
  virtual void OnRead(int32_t /*worker*/, int64_t /*now_ns*/) {}
  virtual void OnApply(int64_t /*now_ns*/, ShardUpdate* /*update*/) {}
};

// SYNC: a barrier. One update a step, made of every worker's push.
std::unique_ptr<UpdatePolicy> MakeSyncBarrier();
// ASYNC: each push is an update of its own, at once; nobody waits for anybody else. Fills in
// ShardUpdate's worker and staleness.
std::unique_ptr<UpdatePolicy> MakeAsync(int32_t world_size);

}  // namespace lockstep
