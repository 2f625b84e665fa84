// member.h: a worker's or server's side of the cluster: join, signs of life, failure and stop.
// The coordinator is the single writer of membership. If it is silent for limits.lease_ms, or its
// stream breaks, `abort` is requested with Unavailable and every wait of the process ends. Where
// the run rebuilds a group (group_state.h), its death ends the waits of that group alone. Workers
// and servers go the same way: Join, Connected, work, and for each later group Rebuild, Connected.
// Threads: calls come from one thread, but for those that say otherwise; two internal threads read
// the stream and beat.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/limits.h"
#include "base/member/device_choice.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace lockstep {

// Version of the three wire protocols together; members of another one are refused at join.
inline constexpr int32_t kProtocol = 1;
// "0.1.0 <commit>": members of another build are refused at join.
std::string BuildId();
// The same, in parts: version, commit, build type.
ToolInfo DescribeTool();
std::string HostName();

struct MemberOptions {
  std::string coordinator;  // host:port
  Role role = WORKER;
  int32_t index = 0;
  std::string endpoint;  // this member's own, bound already
  std::string token;
  int32_t world_size = 0;
  DeviceWords device = {};  // of a worker
  Limits limits;            // of joining; the run's own limits come with Start
};

class Member {
 public:
  virtual ~Member() = default;
  // Joins and waits for everybody: returns with Start received.
  // Errors: Unavailable (no coordinator), InvalidArgument (refused, with the coordinator's reason),
  // DeadlineExceeded (not everybody came; names the missing).
  static absl::StatusOr<std::unique_ptr<Member>> Join(const MemberOptions& options, Abort* abort);

  // Of the group as it is now. Where a variant has parameter servers, run().world_size() is always
  // the declared number of workers, and those of this group are its members.
  virtual const Start& start() const = 0;
  // Requested when the coordinator holds that group for dead, and with the process's own abort.
  // Another one follows with Rebuild: nothing may use it any more then.
  virtual const Abort& group_abort() const = 0;
  // Reports that all links are up and the state is there; returns when everybody's are.
  // Aborted: the group died first.
  virtual absl::Status Connected() = 0;
  // Whether `status` ends the group but not the run: GroupState::MayRebuild.
  virtual bool MayRebuild(const absl::Status& status) const = 0;
  // Reports that the group is dead for `cause`, the step whose state this worker holds (-1: none)
  // or this server's newest version, where it listens now, and the shards whose whole state a
  // server has; returns with the next group's Start received. REQUIRES: MayRebuild(cause).
  virtual absl::Status Rebuild(const absl::Status& cause, int64_t step, const std::string& endpoint,
                               const std::vector<ShardHeld>& held) = 0;
  // What this member sees of the group of `epoch` means that it is dead: group_abort() is requested
  // and AwaitStop returns with `cause`. Of an earlier epoch: nothing happens. From any thread.
  virtual void GiveUpGroup(int64_t epoch, const absl::Status& cause) = 0;
  // Saved and CaughtUp, for the coordinator. From any thread.
  virtual void Tell(const MemberEvent& event) = 0;
  // The step goes out with the next sign of life. From any thread.
  virtual void FinishedStep(int64_t step) = 0;
  // Workers: all steps done. Returns when the coordinator ends the run: OK, or its reason. Aborted:
  // the group died, and others still need this worker's state.
  virtual absl::Status Done(int64_t step) = 0;
  // Servers: returns when the coordinator ends the run: OK, or its reason; or when the group died.
  virtual absl::Status AwaitStop() = 0;
  // Workers: goes before its next step, as planned. OK: the coordinator knows, and the others go
  // on.
  virtual absl::Status Leave(int64_t step) = 0;
  // The stop was for this member alone: it left, or was told to leave, as planned.
  virtual bool left() const = 0;
  // Reports `status` as this member's failure. The coordinator stops everybody.
  virtual void Fail(const absl::Status& status, int64_t step) = 0;
};

}  // namespace lockstep
