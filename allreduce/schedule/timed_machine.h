// timed_machine.h: the machine with a clock behind simulate.h. A lane starts a move when its
// message is here, a slot is free and the awaited move is done. Additions are made by the rank's
// one adder. What is sent takes the sender's out port at once if that is free, and `latency` later
// the receiver's in port, each for overhead + bytes x beta; the first byte need not wait for the
// last. A slot is taken from the send until the receiver's move with the message is done, and free
// at the sender in that moment. Of events at one time the one that was caused first comes first.
// REQUIRES: a schedule in which Verify finds nothing malformed. Pure: no I/O, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/schedule/layout.h"
#include "allreduce/schedule/simulate.h"
#include "base/event_queue.h"
#include "base/port.h"

namespace lockstep {

class TimedMachine {
 public:
  using PartOfRank = std::function<absl::StatusOr<RankPart>(int32_t rank)>;

  TimedMachine(const Shape& shape, const SimulationOptions& options, PartOfRank part_of);
  absl::StatusOr<Simulation> Run();

 private:
  // A move as this machine needs it; millions of them are held.
  struct Step {
    int32_t recv = kNone;  // connections
    int32_t send = kNone;
    int32_t chunk = kNone;  // the first one; kNone: the value is the message, whatever that holds
    int16_t count = 1;
    uint8_t additions = 0;
    bool waits = false;
  };
  static_assert(sizeof(Step) == 16, "a ring of 4,096 ranks has 33 million");
  struct Wait {
    int32_t lane = 0;
    int32_t move = 0;
  };
  struct Awaited {
    int32_t move = 0;
    std::vector<int32_t> depths;  // [tile]: of the lane when the move was done
  };
  struct LaneRun {
    std::vector<Step> steps;
    std::vector<Wait> waits;       // of the steps that wait, in their order
    std::vector<Awaited> awaited;  // moves that other lanes wait for, ascending
    int64_t tile = 0;
    int32_t move = 0;
    int32_t wait = 0;   // index of the next one
    int32_t depth = 0;  // messages in the longest chain that ends at this lane
    bool adding = false;
  };
  struct RankRun {
    std::vector<LaneRun> lanes;  // empty: not yet needed, or through
    int32_t open_lanes = kNone;  // lanes that are not through; kNone: not yet generated
    Port out;
    Port in;
    Port adder;
    int64_t sent_bytes = 0;
    int64_t received_bytes = 0;
  };
  struct Connection {
    int32_t sender = kNone;  // ranks and their lanes
    int32_t sender_lane = kNone;
    int32_t receiver = kNone;
    int32_t receiver_lane = kNone;
    int32_t used = 0;       // slots
    int32_t first = kNone;  // messages that have come and wait to be taken
    int32_t last = kNone;
  };
  struct Message {
    int32_t connection = kNone;
    int32_t depth = 0;
    int32_t next = kNone;  // on its connection, or of the free ones
    int64_t bytes = 0;
  };
  enum class Kind : uint8_t { kAtPort, kHere, kAdded };
  struct Event {
    Kind kind = Kind::kAtPort;
    int32_t id = 0;    // message; kAdded: rank
    int32_t lane = 0;  // kAdded
  };
  struct LaneName {
    int32_t rank = 0;
    int32_t lane = 0;
  };

  absl::Status Generate(int32_t rank);
  void Compile(int32_t rank, int32_t lane_index, const Lane& lane);
  int32_t ConnectionOf(int32_t sender, int32_t receiver, int32_t channel);
  absl::Status StartAll();
  absl::Status Handle(const Event& event);
  void AdvanceReady();
  void Advance(const LaneName& name);
  bool MayStart(const RankRun& rank, const LaneRun& run) const;
  const Awaited& AwaitedBy(const RankRun& rank, const LaneRun& run) const;
  void Finish(const LaneName& name);
  void Take(LaneRun* run, int32_t connection);
  void Send(int32_t rank, const LaneRun& run, const Step& step, int64_t bytes);
  void WakeWaiting(int32_t rank, int32_t lane);
  int64_t BytesOf(const LaneRun& run, const Step& step) const;
  double PortNs(int64_t bytes) const;
  absl::Status StandsStill() const;
  RankRun& At(int32_t rank) { return ranks_[static_cast<size_t>(rank)]; }

  const Shape shape_;
  const SimulationOptions options_;
  const PartOfRank part_of_;
  const ChunkLayout layout_;
  const int64_t tiles_;
  std::vector<RankRun> ranks_;
  std::vector<Connection> connections_;
  std::unordered_map<uint64_t, int32_t> connection_ids_;
  std::vector<Message> messages_;
  int32_t free_message_ = kNone;
  EventQueue<Event> events_;
  std::vector<LaneName> ready_;  // lanes that may be able to go on now
  Simulation result_;
};

}  // namespace lockstep
