// race.h: vector clocks over the lanes of a schedule: is one move ordered after another?
// A lane's clock counts, per lane, the moves known to be finished before its present one. Known are
// a lane's own moves, what a message brings along and what a wait has waited for; a freed slot
// orders nothing, since the number of slots is the interpreter's choice. Inactive (and free of
// cost) when every rank has one lane and nobody asks who has heard of whom: moves of one lane can't
// race. Pure: no I/O, no threads, no
// clock of the wall.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "allreduce/schedule/schedule.h"

namespace lockstep {

using LaneClock = std::vector<int32_t>;  // [lane id]

class RaceDetector {
 public:
  struct Access {
    int32_t lane_id = kNone;
    int32_t move = kNone;
    int32_t time = 0;  // the lane's own count at the access
  };

  // `lanes` counts the lanes of all ranks.
  RaceDetector(int32_t lanes, bool active);

  bool active() const { return active_; }
  // The lane starts its next move.
  void Begin(int32_t lane_id);
  void Join(int32_t lane_id, const LaneClock& other);
  // What this lane knows now: travels with its messages, and with finished moves that others wait
  // for.
  LaneClock Snapshot(int32_t lane_id) const;
  // Has the lane heard that the other one has started its first move?
  bool Heard(int32_t lane_id, int32_t other_lane_id) const;
  // Notes an access and returns an earlier one that it conflicts with and isn't ordered after, if
  // any (lane_id kNone: none).
  Access Read(int32_t rank, int32_t chunk, int32_t lane_id, int32_t move);
  Access Write(int32_t rank, int32_t chunk, int32_t lane_id, int32_t move);

 private:
  struct History {
    Access write;
    std::vector<Access> reads;  // since that write
  };
  bool Ordered(const Access& earlier, int32_t lane_id) const;
  Access Note(int32_t lane_id, int32_t move) const;

  const bool active_;
  std::vector<LaneClock> clocks_;                           // [lane id]
  std::map<std::pair<int32_t, int32_t>, History> history_;  // (rank, chunk)
};

}  // namespace lockstep
