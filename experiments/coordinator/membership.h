// membership.h: who is in the cluster, as a state machine without I/O: (state, event, now) ->
// effects. Joining -> connecting -> running -> stopping. It is the single writer of membership and
// decides which failure came first: a member's own error or death before the errors of those who
// only noticed it. Sessions are streams, numbered by the caller. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/limits.h"
#include "experiments/coordinator/first_cause.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

struct MembershipConfig {
  RunConfig run;
  Limits limits;
  std::string build;
  std::string token;
  int64_t epoch = 1;
};

// What the caller has to do.
struct Effect {
  enum class Kind { kSend, kClose, kLine };
  Kind kind = Kind::kSend;
  int64_t session = 0;
  Command command;   // kSend
  std::string line;  // kLine: for the user
};

class Membership {
 public:
  explicit Membership(MembershipConfig config, int64_t now_ns);

  std::vector<Effect> OnEvent(int64_t session, const MemberEvent& event, int64_t now_ns);
  // The stream of `session` ended.
  std::vector<Effect> OnClosed(int64_t session, int64_t now_ns);
  // The launcher saw the member's process end, e.g. "was killed by SIGKILL". `clean`: exit code 0.
  std::vector<Effect> OnExit(const MemberId& member, bool clean, const std::string& how,
                             int64_t now_ns);
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

 private:
  enum class Phase { kJoining, kConnecting, kRunning, kFailing, kStopping };
  struct MemberState {
    int64_t session = 0;
    Join join;
    bool connected = false;
    bool done = false;
    bool gone = false;
    int64_t step = 0;
    int64_t heard_ns = 0;
  };

  void OnJoin(int64_t session, const Join& join, int64_t now_ns, std::vector<Effect>* effects);
  std::string RefusalOf(const Join& join) const;
  void OnConnected(std::vector<Effect>* effects, int64_t now_ns);
  void OnDone(std::vector<Effect>* effects);
  void Fail(Failure failure, int64_t now_ns);
  // The step a member is in; 0 before training.
  int64_t StepOf(const MemberState& member) const;
  // From Start until everybody is connected: links, start values, and a silence noticed late.
  int64_t ConnectingMsMax() const {
    const Limits& limits = config_.limits;
    return limits.connect_timeout_ms + limits.sync_timeout_ms + limits.lease_ms;
  }
  void CheckDeadlines(int64_t now_ns, std::vector<Effect>* effects);
  void CheckLeases(int64_t now_ns);
  void Beats(int64_t now_ns, std::vector<Effect>* effects);
  void Stop(const absl::Status& outcome, std::vector<Effect>* effects);
  void SendAll(const Command& command, std::vector<Effect>* effects) const;
  std::string Missing(bool MemberState::*reached) const;
  std::string WaitingLine() const;
  std::vector<MemberId> Declared() const;
  std::map<MemberId, MemberState>::iterator Find(int64_t session);

  const MembershipConfig config_;
  Phase phase_ = Phase::kJoining;
  std::map<MemberId, MemberState> members_;
  std::vector<Failure> failures_;
  absl::Status outcome_;
  bool go_sent_ = false;
  int64_t phase_since_ns_;
  int64_t last_line_ns_;
  int64_t last_beat_ns_;
};

}  // namespace lockstep
