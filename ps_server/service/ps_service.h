// ps_service.h: a parameter server behind gRPC: one bidirectional stream of PsFrame per worker and
// per server before it in a chain, and one to each server behind it.
// The port is bound before anybody hears of it, and stays through all groups of the run; who comes
// early waits for Configure. Health and reflection services are on. Threads: one thread polls the
// completion queue and drives the exchange; it calls `events` and `crash`. All methods may be
// called from any thread, but not from those.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/socket.h"
#include "base/traffic.h"
#include "ps_server/service/exchange.h"

namespace lockstep {

struct PsServiceOptions {
  std::string host = "127.0.0.1";
  std::string token;  // workers must send the same
  // Larger messages never leave gRPC. The run's own limits.message_bytes_max comes with Configure
  // and is answered with its name; this one holds before and above: the largest chunk and its
  // header.
  int64_t frame_bytes_max = int64_t{65} << 20;
  PsServerEvents events = {};
  CrashHook crash = nullptr;  // of a planned fault
};

class PsService {
 public:
  // Binds a free port of `host`. `clock` must outlive the service.
  // Errors: as Listen of base/socket.h: FailedPrecondition (not an address of this host), NotFound.
  static absl::StatusOr<std::unique_ptr<PsService>> Start(const PsServiceOptions& options,
                                                          const Clock& clock);
  virtual ~PsService() = default;  // shuts down

  virtual Endpoint endpoint() const = 0;
  // What the run is, or what its next group is. Errors: as Exchange::Configure.
  virtual absl::Status Configure(PsServerConfig config) = 0;
  // The group is dead for `cause`: its streams end. Returns the shards whose whole state is here.
  virtual std::vector<HeldShard> Leave(const absl::Status& cause) = 0;

  virtual PsCounters counters() const = 0;
  virtual Traffic traffic() const = 0;     // all of it
  virtual Traffic unreported() const = 0;  // not part of any event so far

  // Ends all streams at once, reports the last step, frees the port. Later calls do nothing.
  virtual void Shutdown() = 0;
};

}  // namespace lockstep
