// server.h: the coordinator behind gRPC: streams in, Membership decides, commands out.
// Threads: methods from the launcher's thread; gRPC's threads read the streams.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/socket.h"
#include "experiments/coordinator/membership.h"

namespace lockstep {

class CoordinatorServer {
 public:
  virtual ~CoordinatorServer() = default;
  // Port 0: the system chooses. `clock` must outlive it. Errors: as base/socket.h's Listen.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Listen(const Endpoint& endpoint,
                                                                   const MembershipConfig& config,
                                                                   const Clock& clock);
  virtual std::string endpoint() const = 0;
  virtual void Tick() = 0;
  virtual void OnExit(const MemberExit& exit) = 0;
  virtual void RequestStop(const absl::Status& reason) = 0;

  virtual bool stopping() const = 0;
  virtual bool running() const = 0;
  virtual absl::Status outcome() const = 0;
  virtual std::vector<Failure> failures() const = 0;
  virtual int64_t step() const = 0;
  virtual bool Spares(const MemberId& member, int64_t pid) const = 0;
  // Members for which a process has to be started, since the last call.
  virtual std::vector<MemberId> TakeSpawns() = 0;
  // The manifest of the run's snapshots, where it changed since the last call.
  virtual std::optional<std::string> TakeManifest() = 0;
  // Lines for the user since the last call.
  virtual std::vector<std::string> TakeLines() = 0;
};

}  // namespace lockstep
