// member.h: a worker's or server's side of the cluster: join, signs of life, failure and stop.
// The coordinator is the single writer of membership. If it is silent for limits.lease_ms, or its
// stream breaks, `abort` is requested with Unavailable and every wait of the process ends. Threads:
// calls come from one thread; two internal threads read the stream and beat.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/limits.h"
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
  Limits limits;  // of joining; the run's own limits come with Start
};

class Member {
 public:
  virtual ~Member() = default;
  // Joins and waits for everybody: returns with Start received.
  // Errors: Unavailable (no coordinator), InvalidArgument (refused, with the coordinator's reason),
  // DeadlineExceeded (not everybody came; names the missing).
  static absl::StatusOr<std::unique_ptr<Member>> Join(const MemberOptions& options, Abort* abort);

  virtual const Start& start() const = 0;
  // Reports that all links are up; returns when everybody's are.
  virtual absl::Status Connected() = 0;
  // The step goes out with the next sign of life.
  virtual void FinishedStep(int64_t step) = 0;
  // Workers: all steps done. Returns when the coordinator ends the run: OK, or its reason.
  virtual absl::Status Done(int64_t step) = 0;
  // Servers: returns when the coordinator ends the run: OK, or its reason.
  virtual absl::Status AwaitStop() = 0;
  // Reports `status` as this member's failure. The coordinator stops everybody.
  virtual void Fail(const absl::Status& status, int64_t step) = 0;
};

}  // namespace lockstep
