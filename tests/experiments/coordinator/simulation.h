// simulation.h: the inside of rebuild_sim.h: on the network (network.h), the launcher, coordinator
// and the workers (sim_worker.cc). Threads: one.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/member/member.h"
#include "tests/experiments/coordinator/network.h"
#include "tests/experiments/coordinator/rebuild_sim.h"

namespace lockstep::sim {

inline uint64_t Mix(uint64_t state, int64_t step, int world_size) {
  uint64_t z = state ^ (static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15) ^
               (static_cast<uint64_t>(world_size) << 48);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

struct PeerMessage {
  enum class Kind { kHello, kState, kTaken, kGradient, kBroken } kind = Kind::kHello;
  int64_t epoch = 0;
  int from = 0;  // rank
  int64_t step = 0;
  uint64_t state = 0;
};

struct Process {
  enum class Phase { kJoining, kConnecting, kHandOver, kReady, kTraining, kLeft, kDone, kOver };
  int64_t id = 0;  // its session and its pid
  int index = 0;
  bool alive = true;
  int64_t frozen_until_ms = 0;
  int64_t generation = 0;  // of its listener
  Phase phase = Phase::kJoining;
  GroupState group{"sim"};
  int64_t waiting_since_ms = 0;
  int64_t heard_ms = 0;
  // The state that outlives a group.
  int64_t step = 0;
  uint64_t state = 0;
  // Of the group.
  int rank = 0;
  std::vector<int64_t> peers;  // [rank]: process
  std::set<int> hellos;
  std::set<int> taken;
  bool has_offer = false;
  PeerMessage offer;
  std::map<int64_t, std::map<int, uint64_t>> gradients;  // [step][rank]: the sender's state
  bool computed = false;
  int late = 0;  // steps ended in an old epoch
};

class Simulation : private Network {
 public:
  explicit Simulation(const SimOptions& options)
      : Network(options.seed), options_(options), membership_(Config(), 0) {}

  SimResult Run() {
    for (int index = 0; index < options_.workers; ++index) Start(index, Draw(1, 40));
    PlanFaults();
    Every(kTickMs, [this] { Perform(membership_.OnTick(NowNs())); });
    RunUntil([this] { return Over(); });
    result_.ended = Over();
    result_.elapsed_ms = now_ms_;
    if (membership_.stopping()) {
      result_.outcome = membership_.outcome();
      result_.failures = membership_.failures();
    } else {
      result_.outcome = absl::InternalError("still running");
    }
    return std::move(result_);
  }

 private:
  MembershipConfig Config() const;
  // In the process, once it is not frozen; never if it is dead.
  void In(int64_t id, const std::function<void(Process*)>& run);
  void Violation(const std::string& what) {
    result_.violations.push_back(absl::StrCat(now_ms_, " ms: ", what));
  }
  bool Over() const;
  // ------------------------------------------------------------------ the launcher
  void Start(int index, int64_t delay_ms);
  void Kill(int64_t id);
  // The process ends by itself.
  void End(Process* process);
  void PlanFaults();
  int64_t Victim();
  // ------------------------------------------------------------------ the coordinator
  void Perform(const std::vector<Effect>& effects);
  void Closed(int64_t id) { Perform(membership_.OnClosed(id, NowNs())); }
  // Every Start of an epoch is the same for all, and epochs rise.
  void CheckCommand(const Command& command);

  // In sim_worker.cc.
  void Say(Process* process, const MemberEvent& event);
  void Beat(int64_t id);
  void Obey(Process* process, const Command& command);
  void Connect(Process* process);
  // To every peer of the group.
  void Tell(Process* process, PeerMessage message);
  void BreakLinks(const Process& process);
  void Hear(Process* process, const PeerMessage& message);
  void MeetOthers(Process* process);
  void TakeState(Process* process);
  void NextStep(Process* process);
  void FinishStep(Process* process);
  void CheckDeadline(Process* process);
  void Leave(Process* process, const absl::Status& cause);
  void Fail(Process* process, const absl::Status& status);

  const SimOptions options_;
  Membership membership_;
  std::map<int64_t, std::unique_ptr<Process>> processes_;
  std::map<int64_t, std::vector<PeerMessage>> early_;  // of a group its process has no Start of yet
  std::set<int64_t> closing_;                          // sessions
  std::map<int64_t, std::string> starts_;              // by epoch
  std::vector<std::function<void()>> after_break_;
  int64_t progress_epoch_ = 0;
  int64_t go_epoch_ = 0;
  int64_t next_id_ = 1;
  int to_lose_ = 0;
  SimResult result_;
};

}  // namespace lockstep::sim
