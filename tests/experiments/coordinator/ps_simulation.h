// ps_simulation.h: the inside of ps_sim.h: on the network (network.h), the launcher and coordinator
// (ps_sim.cc) and the members (ps_sim_members.cc). Threads: one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/member/member.h"
#include "tests/experiments/coordinator/network.h"
#include "tests/experiments/coordinator/ps_sim.h"

namespace lockstep::sim {

struct CopyModel {
  int64_t version = 0;
  uint64_t number = 0;
};

struct PsMessage {
  enum class Kind { kHello, kWelcome, kPush, kReply, kState, kUpdate, kConfirm };
  Kind kind = Kind::kHello;
  int64_t epoch = 0;
  MemberId from = {};
  int shard = 0;
  int64_t step = 0;  // or version
  uint64_t number = 0;
};

struct PsProcess {
  enum class Phase { kJoining, kConnecting, kReady, kTraining, kLeft, kDone, kOver };
  int64_t id = 0;  // its session and its pid
  MemberId member;
  bool alive = true;
  int64_t frozen_until_ms = 0;
  int64_t generation = 0;  // of its endpoint
  Phase phase = Phase::kJoining;
  GroupState group{"sim"};
  int64_t waiting_since_ms = 0;
  int64_t heard_ms = 0;
  std::map<MemberId, int64_t> peers;  // of the group: processes
  // Servers. What outlives a group: copies.
  std::map<int, CopyModel> copies;           // [shard]
  std::map<int, std::set<MemberId>> staged;  // [shard]: whose push of the next step is here
  std::map<int, std::set<MemberId>> owed;    // [shard]: workers that a reply is owed to
  std::map<int, int64_t> confirmed;          // [shard]: version that all behind have
  std::map<int, bool> waits_for_successor;   // [shard]
  std::set<int> awaits_state;                // shards
  std::vector<PsMessage> greetings;          // before this server serves
  // Workers.
  int64_t step = 0;
  std::map<int, int64_t> welcomes;  // [shard]: version
  std::set<int> replies;            // shards
};

class PsSimulation : private Network {
 public:
  explicit PsSimulation(const PsSimOptions& options)
      : Network(options.seed), options_(options), membership_(Config(), 0) {}
  PsSimResult Run();

 private:
  using Phase = PsProcess::Phase;
  using Kind = PsMessage::Kind;
  MembershipConfig Config() const;
  void In(int64_t id, const std::function<void(PsProcess*)>& run);
  void Violation(const std::string& what) {
    result_.violations.push_back(absl::StrCat(now_ms_, " ms: ", what));
  }
  bool Over() const;
  void Start(const MemberId& member, int64_t delay_ms);
  void Kill(int64_t id);
  void End(PsProcess* process);
  void Report(int64_t id, const std::string& how);
  void PlanFaults();
  void KillInTurn(int server);
  int64_t Victim(Role role);
  void Perform(const std::vector<Effect>& effects);
  void CheckStart(const lockstep::Start& start);

  // In ps_sim_members.cc.
  void Say(PsProcess* process, const MemberEvent& event);
  void Beat(int64_t id);
  void Obey(PsProcess* process, const Command& command);
  void Connect(PsProcess* process);
  bool Restore(PsProcess* process);
  void ConnectServer(PsProcess* process);
  void Serve(PsProcess* process);
  void Tell(PsProcess* process, const MemberId& to, PsMessage message);
  void Hear(PsProcess* process, const PsMessage& message);
  void HearAsServer(PsProcess* process, const PsMessage& message);
  void HearAsWorker(PsProcess* process, const PsMessage& message);
  void Welcome(PsProcess* process, const PsMessage& hello);
  void TakePush(PsProcess* process, const PsMessage& push);
  void SendOn(PsProcess* process, int shard, Kind kind);
  void Confirm(PsProcess* process, int shard);
  void Save(PsProcess* process, int shard);
  void Push(PsProcess* process);
  void CheckDeadline(PsProcess* process);
  void Leave(PsProcess* process, const absl::Status& cause);
  void Fail(PsProcess* process, const absl::Status& status);
  const ShardChain& ChainOf(const PsProcess& process, int shard) const {
    return process.group.start().chain(shard);
  }
  static std::vector<int> Order(const ShardChain& chain);
  static std::optional<int> Neighbour(const ShardChain& chain, int server, int offset);

  const PsSimOptions options_;
  Membership membership_;
  std::map<int64_t, std::unique_ptr<PsProcess>> processes_;
  std::map<int64_t, std::vector<PsMessage>> early_;    // of a group its process has no Start of yet
  std::set<int64_t> closing_;                          // sessions
  std::map<int64_t, std::string> starts_;              // by epoch
  std::map<std::pair<int, int64_t>, CopyModel> disk_;  // [shard, step]
  std::set<int64_t> damaged_;                          // steps
  std::map<int, int64_t> told_;  // [shard]: newest version a worker was told of
  std::vector<std::function<void()>> after_break_;
  int64_t next_id_ = 1;
  PsSimResult result_;
};

}  // namespace lockstep::sim
