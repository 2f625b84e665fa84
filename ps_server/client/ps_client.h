// ps_client.h: what a worker links to speak to its parameter servers: start values, push, pull.
// One stream per server; shard i lives at server i. Chunks of limits.chunk_bytes go to the servers
// in turn, beginning at server rank % servers, so that workers do not queue at the same one; at
// most limits.window_chunks wait at a stream. Gradients are sent from where they are, without a
// copy. Bytes per worker and step: sends S and receives S (each server: n * S / s in and out).
// Errors, each with worker, server, shard, step and elapsed time where they apply:
//   DeadlineExceeded   limits.connect_timeout_ms or limits.sync_timeout_ms passed; the server says
//                      which workers are missing, or is blamed itself when it says nothing
//   Unavailable        a server is gone; it is blamed
//   what a server refuses (InvalidArgument, FailedPrecondition, ...), with its reason
// After an error the client is dead: every later call fails with it. Waits end at once when `abort`
// is requested, with its reason. Threads: one object, one call at a time, not always from the same
// thread; I/O happens in the calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/link_cost.h"
#include "base/socket.h"
#include "base/traffic.h"
#include "ps_server/core/partition.h"

namespace lockstep {

struct PsClientOptions {
  std::vector<Endpoint> servers;  // [shard]
  int32_t rank = 0;
  int64_t incarnation = 0;  // larger in each later life of the same rank
  int64_t epoch = 0;
  std::string token;
  PsLayout layout;  // shards must equal servers.size()
  Limits limits;
};

class PsClient {
 public:
  // Returns when every server has admitted this worker. `clock` and `abort` must outlive the
  // client.
  static absl::StatusOr<std::unique_ptr<PsClient>> Connect(const PsClientOptions& options,
                                                           const Clock& clock, const Abort& abort);
  virtual ~PsClient() = default;

  // Rank 0: the start values, whole flat space. They must stay as they are until Pull(0) has
  // returned.
  virtual absl::Status Init(std::span<const float> parameters) = 0;
  // Gradients of the flat space's elements [offset, offset + gradients.size()) for `step`, 1-based.
  // The pushes of a step cover the space once, in any order; an empty one does nothing. `gradients`
  // must stay as they are until Pull(step) has returned or the client is destroyed.
  virtual absl::Status Push(int64_t step, int64_t offset, std::span<const float> gradients) = 0;
  // SYNC: waits until every shard has applied `step` steps (0: the start values), and fetches the
  // whole flat space. ASYNC: fetches it as it stands once this worker's own push of `step` is
  // applied.
  virtual absl::Status Pull(int64_t step, std::span<float> parameters) = 0;

  // Ping-pong with server 0, small and large messages, before Init; rank 0 alone should call it.
  virtual absl::StatusOr<LinkCost> MeasureLink() = 0;

  virtual Traffic traffic() const = 0;
};

}  // namespace lockstep
