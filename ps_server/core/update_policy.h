// update_policy.h: when a shard applies pushes, and what a pull waits for: all that differs between
// the modes. Whatever the mode, a pull of step t is answered once its worker's push of t is applied
// (K_OF_N: or dropped). Whoever is absent is waited for by nobody. Deterministic: no I/O, no
// threads, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ps_server/core/rules.h"
#include "ps_server/core/staging.h"
#include "ps_server/core/staleness.h"
#include "ps_server/core/update.h"

namespace lockstep {

// What a shard knows of one worker.
struct ShardWorker {
  struct Pull {
    int64_t step = 0;
    int64_t since_ns = 0;
    std::optional<int64_t> blocked_ns;  // since when nothing but the mode's bound holds it
  };
  int64_t incarnation = -1;
  int64_t last_step = 0;      // applied, or dropped for good (K_OF_N)
  int64_t dropped = 0;        // pushes
  bool rejected = false;      // the push of last_step was dropped
  bool present = true;        // in the group
  bool redoes = false;        // K_OF_N: it makes steps again that are done here
  Staging staging;            // of last_step + 1
  int64_t base = 0;           // K_OF_N: round that the staged gradients were computed from
  bool late = false;          // K_OF_N: the staged push is whole, and its round is over
  int64_t push_start_ns = 0;  // its first chunk
  int64_t push_end_ns = 0;    // its newest one
  std::optional<Pull> pull;   // not answered yet
};

// The least last step of those who are present; of an empty group: 0.
int64_t LeastStep(const std::vector<ShardWorker>& workers);

class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  // Whose pushes make an update now, in rank order; none when more must come first. Asked after
  // each push that has become whole, or was dropped.
  virtual std::vector<int32_t> Due(const std::vector<ShardWorker>& workers) const = 0;
  // Whether a whole push is dropped.
  virtual bool Drops(const ShardWorker& /*worker*/) const { return false; }
  // Whether whoever has finished `step` may read, when the least step of all is `least_step`.
  virtual bool MayRead(int64_t /*step*/, int64_t /*least_step*/) const { return true; }
  // Whose unfinished pushes an unanswered pull of `worker` waits for, in rank order.
  virtual std::vector<int32_t> AwaitedBy(int32_t worker,
                                         const std::vector<ShardWorker>& workers) const = 0;
  // Whether a wait that expires is the end for all workers, or for the one that waited.
  virtual bool AllWaitTogether() const = 0;
  // Whether all that finish a step read one and the same version then, however late they ask.
  virtual bool OneVersionPerStep() const { return false; }

  // For what a policy measures: a reply has got its version; an update is about to be applied.
  virtual void OnRead(int32_t /*worker*/, int64_t /*version*/, int64_t /*least_step*/,
                      int64_t /*now_ns*/) {}
  virtual void OnApply(int64_t /*now_ns*/, ShardUpdate* /*update*/) {}
  // What it must remember of each worker across processes; empty: nothing.
  virtual std::vector<StalenessMark> Save() const { return {}; }
  virtual void Restore(const std::vector<StalenessMark>& /*marks*/) {}
};

// SYNC: a barrier. One update a step, made of every worker's push.
std::unique_ptr<UpdatePolicy> MakeSyncBarrier();
// ASYNC: each push is an update of its own, at once; nobody waits for anybody else. Fills in
// ShardUpdate's worker and staleness.
std::unique_ptr<UpdatePolicy> MakeAsync(int32_t world_size);
// BOUNDED: as ASYNC, but whoever has finished step t reads once all have finished t - staleness.
std::unique_ptr<UpdatePolicy> MakeBounded(int32_t world_size, int64_t staleness);
// K_OF_N: a round's update is made of the first k pushes computed from it, or of one from each
// worker that can still make such a push, where these are fewer. A push whose round is over is
// dropped, or is an update of its own, at once. On several shards nobody waits for ever: a push's
// round is the least that its worker read of any shard (rules.h). Were all at rest, then at a shard
// that is in the least round r of all every worker's push would be here and be of round r: it was
// made from rounds up to r, as no shard had given its worker less than its label; if it is answered
// here its worker waits at another shard with a push that is not late there, so that is of a round
// of at least r, thus of r, and would have been part of the update that ends r here, or still be
// here. So all who can push are here, and the round ends. But for those who went back in a new
// group to a step that is done here and not at another shard (`redoes`): they push nothing here
// before they are answered there, so they are not waited for.
std::unique_ptr<UpdatePolicy> MakeKOfN(const PsRules& rules);

}  // namespace lockstep
