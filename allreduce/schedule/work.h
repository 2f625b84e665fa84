// work.h: all that the ranks of a schedule send together, counted from the schedule itself. Where
// ranks share cores this, and not the longest path, sets the pace: whoever is busy keeps another
// from it. Cost: as many steps as there are moves. Pure.
#pragma once

#include <cstdint>

#include "allreduce/schedule/cost.h"

namespace lockstep {

struct Work {
  int64_t messages = 0;
  // Payload; half as much again of messages that are gathered and scattered by hand, those of
  // several chunks in a call of several tiles.
  double bytes = 0;
};

// Of `bytes` a rank, in tiles of at most `tile_bytes` of every chunk. REQUIRES: a spec that
// MakeRankPart accepts, bytes >= 0, tile_bytes >= 1.
Work WorkOf(const ScheduleSpec& spec, int64_t bytes, int64_t tile_bytes);

// How long the work keeps the cores busy; 0 where every rank has one.
double CrowdNs(const CostModel& cost, const Work& work);

// Measured, of a schedule in which all ranks talk at once: without data, and with `bytes` a rank.
struct CrowdTimes {
  double empty_ns = 0;
  double large_ns = 0;
  int64_t bytes = 1;
  int64_t tile_bytes = 1;
};
// `cost` with crowd_*, unless the empty call took about as long as its closed form says.
// REQUIRES: `spec` has a closed form, at least two ranks.
CostModel WithCrowd(CostModel cost, const ScheduleSpec& spec, const CrowdTimes& times);

}  // namespace lockstep
