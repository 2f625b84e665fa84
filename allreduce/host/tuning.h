// tuning.h: AUTO's memory: what the links were measured to cost, and which algorithm the model then
// picks for a size. Sizes share a choice up to the next power of two. The same costs give the same
// choices on every rank. Pure. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "allreduce/schedule/choose.h"

namespace lockstep {

class Tuning {
 public:
  Tuning(int world_size, int64_t tile_bytes) : world_size_(world_size), tile_bytes_(tile_bytes) {}

  const std::optional<CostModel>& cost() const { return cost_; }
  void Learn(const CostModel& cost);

  // REQUIRES: cost() is known, bytes >= 0. Both agree; For remembers.
  Choice Choose(int64_t bytes) const;
  Algorithm For(int64_t bytes);
  // "auto: ring for 1048576..2097151 bytes on 4 ranks (latency 9.1 us, overhead 3.0 us, 0.25 ns/B
  // moved, 0.08 ns/B reduced; sharing cores: 2.7 us a message, 0.20 ns/B): ring: 0.21 ms modelled;
  // ...".
  std::string Why(int64_t bytes) const;

 private:
  const int world_size_;
  const int64_t tile_bytes_;
  std::optional<CostModel> cost_;
  std::map<int64_t, Algorithm> choices_;  // [least size of the class]
};

}  // namespace lockstep
