// staleness.h: measures at one shard how old an asynchronous worker's parameters are.
// A worker's cycle is apply, read, apply: it reads (its reply's version is fixed), computes, and
// its next push is applied. Between read and apply lie the others' updates that its gradient does
// not know. While the workers' cycles have the same length on average, the mean count of those is
// (n - 1)(1 - gap / cycle), gap being the part of the cycle from the worker's own apply to its
// read. Deterministic, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ps_server/core/update.h"

namespace lockstep {

// What the meter knows of one worker; part of a shard's saved state.
struct StalenessMark {
  int64_t applied = 0;          // own updates
  int64_t others_at_read = 0;   // others' updates that its last read contained
  int64_t slowest_at_read = 0;  // least step of any worker in it

  bool operator==(const StalenessMark&) const = default;
};

class StalenessMeter {
 public:
  // Every worker starts with a read of the start values.
  explicit StalenessMeter(int32_t world_size) : workers_(static_cast<size_t>(world_size)) {}

  // A reply to `worker` has got its version, which contains so many updates, and each worker's up
  // to `least_step`. A later read replaces an earlier one of its cycle.
  void Read(int32_t worker, int64_t version, int64_t least_step, int64_t now_ns);
  // `worker`'s next update is applied, its push of `step`.
  Staleness Apply(int32_t worker, int64_t step, int64_t now_ns);

  // Cycles that a restart cuts have no times.
  std::vector<StalenessMark> Save() const;
  void Restore(const std::vector<StalenessMark>& marks);

 private:
  struct Worker {
    StalenessMark mark;
    std::optional<int64_t> read_ns;  // since its last apply
    std::optional<int64_t> apply_ns;
  };

  std::vector<Worker> workers_;  // [rank]
  int64_t applied_ = 0;
};

}  // namespace lockstep
