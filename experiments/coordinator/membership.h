// membership.h: who is in the cluster, as a state machine without I/O: (state, event, now) ->
// effects. Joining -> connecting -> running -> stopping. It is the single writer of membership and
// decides which failure came first: a member's own error or death before the errors of those who
// only noticed it.
// Where a variant says so (LossRule), the loss of a member of a running group, or a report that the
// group is dead, does not fail the run: running -> rebuilding -> connecting -> running, with the
// next epoch. Everybody in the old group is told; when each has reported what it holds, and the
// replacements that the next group can't do without have joined, it starts: with the state of the
// worker that is furthest, or, where servers have the parameters, as shards.h says. Replacements
// that it can do without are given limits.settle_ms. One that joins later, or anybody who joins in
// the place of a lost member, begins one more epoch. Losses in between begin this anew.
// A member that was declared lost is fenced: its session is closed and nothing it says is heard.
// All of it within limits.rebuild_timeout_ms of the first sign, or the run fails with that cause.
// What the fault plan changes in order goes the same way: a worker says that it leaves, and may;
// one that is to join is asked for; a server that is to be restarted is told to leave. Sessions are
// streams, numbered by the caller. One thread. membership_rebuild.cc has what follows a loss,
// membership_planned.cc what was planned, membership_watch.cc what time brings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/limits.h"
#include "base/member/group_state.h"
#include "experiments/coordinator/effect.h"
#include "experiments/coordinator/first_cause.h"
#include "experiments/coordinator/planned_changes.h"
#include "experiments/coordinator/rebuild.h"
#include "experiments/coordinator/replacements.h"
#include "experiments/coordinator/shards.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

struct MembershipConfig {
  RunConfig run;
  Limits limits;
  std::string build;
  std::string token;
  int64_t epoch = kFirstEpoch;
};

// A process of the launcher's ended.
struct MemberExit {
  MemberId member;
  int64_t pid = 0;            // as in its Join; 0: it could not be started
  bool clean = false;         // exit code 0
  std::string how;            // "exited with code 5", "was killed by SIGKILL"
  std::string log_path = {};  // of its output
};

class Membership {
 public:
  explicit Membership(MembershipConfig config, int64_t now_ns);

  std::vector<Effect> OnEvent(int64_t session, const MemberEvent& event, int64_t now_ns);
  // The stream of `session` ended.
  std::vector<Effect> OnClosed(int64_t session, int64_t now_ns);
  std::vector<Effect> OnExit(const MemberExit& exit, int64_t now_ns);
  // The user wants the run to end.
  std::vector<Effect> OnStopRequested(const absl::Status& reason, int64_t now_ns);
  // Deadlines, leases, beats; call at least every 50 ms.
  std::vector<Effect> OnTick(int64_t now_ns);

  bool stopping() const { return phase_ == Phase::kStopping; }
  bool running() const { return phase_ == Phase::kRunning; }
  // OK for a complete run. REQUIRES: stopping().
  const absl::Status& outcome() const { return outcome_; }
  // First cause first.
  const std::vector<Failure>& failures() const { return failures_; }
  // Smallest finished step over the workers.
  int64_t step() const;
  // The run goes on, or ended, without this process: it was a member that was lost, or is to
  // replace one and has not joined, or was refused as one too many.
  bool Spares(const MemberId& member, int64_t pid) const;

 private:
  enum class Phase { kJoining, kConnecting, kRunning, kRebuilding, kFailing, kStopping };
  struct MemberState {
    int64_t session = 0;
    Join join;
    bool connected = false;
    bool done = false;
    bool gone = false;
    bool broken = false;  // it waits for the next epoch's Start, in no group
    int64_t step = 0;     // last finished one; kNoState: a replacement before its group stands
    int64_t heard_ns = 0;
  };
  using Members = std::map<MemberId, MemberState>;

  void OnJoin(int64_t session, const Join& join, int64_t now_ns, std::vector<Effect>* effects);
  std::string RefusalOf(const Join& join) const;
  void OnConnected(std::vector<Effect>* effects, int64_t now_ns);
  void OnDone(int64_t now_ns, std::vector<Effect>* effects);
  void OnBroken(Members::iterator member, const Broken& broken, int64_t now_ns,
                std::vector<Effect>* effects);
  void OnSaved(const MemberState& state, const Saved& saved, std::vector<Effect>* effects);
  void OnCaughtUp(const CaughtUp& caught_up, int64_t now_ns, std::vector<Effect>* effects);

  // In membership_planned.cc.
  void OnDeparting(Members::iterator member, const Departing& departing, int64_t now_ns,
                   std::vector<Effect>* effects);
  // It goes, and that is no failure.
  void Release(Members::iterator member, const std::string& what, int64_t now_ns,
               std::vector<Effect>* effects);
  void OnLeftExit(const MemberExit& exit, int64_t now_ns);
  // True: something is under way, or waits for the servers' copies, that the run's end must wait
  // for.
  bool ChangeAsPlanned(int64_t now_ns, std::vector<Effect>* effects);
  bool RestartAsPlanned(int64_t now_ns, std::vector<Effect>* effects);
  // Those without whom the first group can't start.
  std::vector<MemberId> Awaited() const;

  void Fail(Failure failure, int64_t now_ns);
  // Of the next epoch's group: everybody who is here.
  void StartGroup(int64_t now_ns, std::vector<Effect>* effects);

  // Rebuilding, in membership_rebuild.cc.
  bool Rebuilds(Role role) const;
  // This process is not the one that joined.
  static bool IsAnother(const MemberState& member, int64_t pid) {
    return pid != 0 && member.join.pid() != 0 && member.join.pid() != pid;
  }
  // A group has begun, and another one can follow it.
  bool MayRegroup() const;
  // Nobody is in its place, and somebody may take it.
  bool IsVacant(const MemberId& id) const;
  // The next group can't do without it. REQUIRES: everybody who is here has left the dead group.
  bool IsNeeded(const MemberId& id) const;
  std::set<int> Present(Role role) const;
  bool AllHaveLeft() const;
  // `member` is gone without having said why: the run fails, or goes on without it.
  void Lose(Members::iterator member, const absl::Status& status, int64_t now_ns,
            std::vector<Effect>* effects);
  void Fence(const MemberState& state, const std::string& why, std::vector<Effect>* effects);
  void Replace(const MemberId& id, const std::string& how, int64_t now_ns,
               std::vector<Effect>* effects);
  void BreakGroup(Failure cause, int64_t now_ns, std::vector<Effect>* effects);
  // Those who have joined beside the running group get one with everybody.
  void TakeIn(int64_t now_ns, std::vector<Effect>* effects);
  // Asks everybody in the group to leave it.
  void Dissolve(int64_t now_ns, std::vector<Effect>* effects);
  // Starts the next group once everybody is ready for it.
  void Regroup(int64_t now_ns, std::vector<Effect>* effects);
  // Why no group can follow; empty: one can, in time.
  std::string Hopeless() const;
  bool WaitsForMore(int64_t now_ns) const;
  void GroupStands(int64_t now_ns);
  std::string Became(int64_t now_ns) const;
  // Tells the user of the groups that stand: at once, or when it is known how the lost ones ended.
  void TellOfRebuilds(int64_t now_ns, bool last, std::vector<Effect>* effects);
  void CheckRebuild(int64_t now_ns, std::vector<Effect>* effects);
  void CheckReplacements(int64_t now_ns, std::vector<Effect>* effects);
  void GiveUp(const std::string& why, int64_t now_ns);
  std::string Unready() const;
  Members::const_iterator Source() const;

  // The step a member is in; 0 before training.
  int64_t StepOf(const MemberState& member) const;
  // From Start until everybody is connected: links, start values, and a silence noticed late.
  int64_t ConnectingMsMax() const {
    const Limits& limits = config_.limits;
    return limits.connect_timeout_ms + limits.sync_timeout_ms + limits.lease_ms;
  }
  void CheckDeadlines(int64_t now_ns, std::vector<Effect>* effects);
  void CheckLeases(int64_t now_ns, std::vector<Effect>* effects);
  void Beats(int64_t now_ns, std::vector<Effect>* effects);
  void Stop(const absl::Status& outcome, std::vector<Effect>* effects);
  void SendAll(const Command& command, std::vector<Effect>* effects) const;
  // To those in the group alone.
  void SendGroup(const Command& command, std::vector<Effect>* effects) const;
  std::string Missing(bool MemberState::*reached) const;
  std::string WaitingLine() const;
  std::vector<MemberId> Declared() const;
  Members::iterator Find(int64_t session);

  static constexpr int64_t kNoState = -1;

  const MembershipConfig config_;
  const LossRule rule_;
  Phase phase_ = Phase::kJoining;
  Members members_;
  std::map<MemberId, int64_t> incarnations_;  // processes that have been it
  int64_t epoch_;
  std::optional<Shards> shards_;             // where there are parameter servers
  std::string change_;                       // of the shards, with this epoch
  std::optional<int64_t> exposed_since_ns_;  // some shard lacks a copy
  int64_t copied_bytes_ = 0;                 // since then
  Replacements replacements_;
  PlannedChanges planned_;
  std::optional<Rebuild> rebuild_;   // under way
  int64_t rebuilt_step_ = kNoState;  // what the last rebuild began with
  int rebuilds_of_step_ = 0;         // in a row
  struct Rebuilding {
    Rebuild rebuild;
    std::string became;
    int64_t since_ns;
  };
  std::vector<Rebuilding> untold_;  // over
  std::set<int64_t> lost_pids_;
  std::set<int64_t> left_pids_;
  std::set<std::pair<MemberId, int64_t>>
      ended_;  // replacements whose end was seen before their Join
  std::vector<Failure> failures_;
  absl::Status outcome_;
  bool go_sent_ = false;
  int64_t phase_since_ns_;
  int64_t last_line_ns_;
  int64_t last_beat_ns_;
};

}  // namespace lockstep
