// machine.h: the abstract machine behind verify.h: finite slots, values known by their
// contributions. Runs the lanes in rounds until none can go on, then looks at what is left.
// Findings go to the report. REQUIRES: indices of the schedule in range and one owner per
// connection end (Verify checks it first). Pure: no I/O, no threads, no clock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "allreduce/schedule/race.h"
#include "allreduce/schedule/schedule.h"
#include "allreduce/schedule/verify.h"

namespace lockstep {

class VerifyMachine {
 public:
  VerifyMachine(const Schedule& schedule, const Goal& goal, VerifyReport* report);
  // REQUIRES: called once; rounds may have been run before.
  void Run();

  // Every move that needs no message of this same round: one hop for each message. False: none
  // could start.
  bool RunRound();
  // How many ranks' contributions are in what a place holds; 0: nothing. For pictures.
  int32_t InputsAt(int32_t rank, int32_t chunk) const;
  // [sender][data chunk]: likewise, the most in a message that has not been received; 0: none.
  std::vector<std::vector<int32_t>> InputsUnderWay() const;

 private:
  // A sum of contributions to one chunk; no ranks: empty.
  struct Value {
    int32_t chunk = kNone;
    std::vector<uint64_t> ranks;  // bit r: rank r's contribution is in
    bool empty() const { return chunk == kNone; }
  };
  struct Message {
    std::vector<Value> values;
    LaneClock clock;
    int32_t move = kNone;  // of the sender
    int32_t round = 0;     // in which it was sent
  };
  struct Connection {
    std::deque<Message> queue;
    int32_t sender = kNone;  // lane ids; kNone: that end has no owner
    int32_t receiver = kNone;
  };
  using Key = std::array<int32_t, 3>;  // sending rank, receiving rank, channel
  struct LaneState {
    int32_t rank = 0;
    int32_t lane = 0;
    const Lane* data = nullptr;
    size_t next = 0;  // move
    bool finished() const { return next == data->moves.size(); }
  };
  struct Cell {
    Value value;
    int32_t lane = kNone;  // last writer
    int32_t move = kNone;
  };
  // Why a lane can't start its next move, and the lane that could change it (kNone: no lane will).
  struct Blocked {
    std::string why;
    int32_t on = kNone;
  };

  Key SendKey(const LaneState& state, const Move& move) const;
  Key RecvKey(const LaneState& state, const Move& move) const;
  bool CanStart(const LaneState& state) const;
  Blocked WhyBlocked(const LaneState& state) const;
  bool Step(int32_t lane_id);
  std::vector<Value> Combine(int32_t lane_id, const Move& move, std::vector<Value> message);
  void Read(int32_t lane_id, int32_t chunk, Value* value);
  void FoldInto(const LaneState& state, const Value& in, Value* value);
  void WriteOut(int32_t lane_id, const Move& move, const std::vector<Value>& values);
  void ReportRace(int32_t lane_id, int32_t chunk, const RaceDetector::Access& conflict);
  void Report(Fault fault, const LaneState& state, const std::string& what);
  void ReportDeadlock(int32_t lane_id);
  void ReportUnread();
  void ReportWrongFinal();
  void ReportEarlyEnd();
  std::vector<uint64_t> Wanted(int32_t chunk) const;
  Cell& At(int32_t rank, int32_t chunk) {
    return cells_[static_cast<size_t>(rank)][static_cast<size_t>(chunk)];
  }

  const Schedule& schedule_;
  const Goal& goal_;
  VerifyReport* const report_;
  std::vector<LaneState> lanes_;          // [lane id]
  std::vector<int32_t> first_lane_;       // [rank]: its lane 0's id
  std::vector<std::vector<Cell>> cells_;  // [rank][chunk, then scratch]
  std::map<Key, Connection> connections_;
  std::map<std::pair<int32_t, int32_t>, LaneClock>
      awaited_;  // (lane id, move) that a lane waits for
  RaceDetector races_;
  int32_t round_ = 0;  // the one that runs, from 1
};

}  // namespace lockstep
