// member.h: what a simulated worker and server have in common, as base/member/member.cc has it
// around gRPC: one stream to the coordinator, signs of life both ways, a lease on this host's
// monotonic clock, and the group state machine (base/member/group_state.h), which is the real one.
// A member whose coordinator is silent for the lease, or whose stream to it breaks, ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/limits.h"
#include "base/member/group_state.h"
#include "experiments/simulate/world.h"
#include "proto/coordinator.pb.h"

namespace lockstep {

inline constexpr char kSimBuild[] = "simulated";

struct SimMemberOptions {
  Role role = WORKER;
  int32_t index = 0;
  int64_t coordinator = 0;  // its process
  Limits limits;
};

class SimMember : public SimProcess {
 public:
  SimMember(const SimContext& self, const SimMemberOptions& options);

  void OnStart() final;
  void OnMessage(int64_t stream, const std::string& bytes) final;
  void OnClosed(int64_t stream) final;
  void OnTimer(int64_t timer) final;

  const GroupState& group() const { return group_; }
  int32_t index() const { return options_.index; }

  // Processes are their own addresses.
  static int64_t ProcessOf(const MemberInfo& info);

 protected:
  // By which leases are measured. Tests plant other clocks here.
  virtual int64_t LeaseNowNs() const { return self_.NowNs(); }

  virtual void OnGroup() = 0;  // group().start() is a new one
  virtual void OnGo() = 0;
  virtual void LeaveGroup(const absl::Status& cause) = 0;  // closes every stream, keeps the state
  virtual void OnRunComplete() {}
  virtual void OnFrame(int64_t stream, const std::string& bytes) = 0;
  virtual void OnStreamClosed(int64_t stream) = 0;
  virtual void OnOwnTimer(int64_t timer) = 0;
  // Every heartbeat. Not OK: this member's group, or its wait for one, has come to its end.
  virtual absl::Status CheckDeadlines() = 0;
  // Last finished one; a server's newest version; -1: none.
  virtual int64_t step() const = 0;
  virtual std::vector<ShardHeld> held() const { return {}; }

  void Say(const MemberEvent& event) const;
  void SayConnected() const;
  // This group is dead, or this member is: Broken, or Failed and the end.
  void GiveUp(const absl::Status& cause);
  void Fail(const absl::Status& status);
  // Of this role and index in the group.
  const MemberInfo* InfoOf(Role role, int32_t index) const;

  const SimContext self_;
  const SimMemberOptions options_;
  GroupState group_;

 private:
  enum Timer : int64_t { kBeatTimer = -1 };
  void Beat();

  int64_t coordinator_stream_ = 0;
  int64_t heard_ns_ = 0;
};

}  // namespace lockstep
