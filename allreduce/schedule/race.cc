#include "allreduce/schedule/race.h"

#include <algorithm>

namespace lockstep {

RaceDetector::RaceDetector(int32_t lanes, bool active) : active_(active) {
  if (!active_) return;
  const auto n = static_cast<size_t>(lanes);
  clocks_.assign(n, LaneClock(n, 0));
}

void RaceDetector::Begin(int32_t lane_id) {
  if (!active_) return;
  const auto lane = static_cast<size_t>(lane_id);
  ++clocks_[lane][lane];
}

void RaceDetector::Join(int32_t lane_id, const LaneClock& other) {
  if (!active_) return;
  LaneClock& mine = clocks_[static_cast<size_t>(lane_id)];
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], other[i]);
}

LaneClock RaceDetector::Snapshot(int32_t lane_id) const {
  return active_ ? clocks_[static_cast<size_t>(lane_id)] : LaneClock();
}

bool RaceDetector::Ordered(const Access& earlier, int32_t lane_id) const {
  if (earlier.lane_id == kNone || earlier.lane_id == lane_id) return true;
  return clocks_[static_cast<size_t>(lane_id)][static_cast<size_t>(earlier.lane_id)] >=
         earlier.time;
}

bool RaceDetector::Heard(int32_t lane_id, int32_t other_lane_id) const {
  return clocks_[static_cast<size_t>(lane_id)][static_cast<size_t>(other_lane_id)] > 0;
}

RaceDetector::Access RaceDetector::Note(int32_t lane_id, int32_t move) const {
  const auto lane = static_cast<size_t>(lane_id);
  return {lane_id, move, clocks_[lane][lane]};
}

RaceDetector::Access RaceDetector::Read(int32_t rank, int32_t chunk, int32_t lane_id,
                                        int32_t move) {
  if (!active_) return {};
  History& history = history_[{rank, chunk}];
  history.reads.push_back(Note(lane_id, move));
  return Ordered(history.write, lane_id) ? Access() : history.write;
}

RaceDetector::Access RaceDetector::Write(int32_t rank, int32_t chunk, int32_t lane_id,
                                         int32_t move) {
  if (!active_) return {};
  History& history = history_[{rank, chunk}];
  Access conflict;
  if (!Ordered(history.write, lane_id)) conflict = history.write;
  for (const Access& read : history.reads) {
    if (!Ordered(read, lane_id)) conflict = read;
  }
  history.write = Note(lane_id, move);
  history.reads.clear();
  return conflict;
}

}  // namespace lockstep
