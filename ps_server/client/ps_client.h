// ps_client.h: what a worker links to speak to its parameter servers: start values, push, pull. The
// protocol is client_core.h's; here it runs over gRPC, one stream per server that is the head of a
// shard's chain. Chunks of limits.chunk_bytes go to the servers in turn, beginning at server rank %
// servers, so that workers do not queue at the same one; at most limits.window_chunks wait at a
// stream. f32 gradients are sent from where they are, without a copy, where a shard is one piece of
// the flat space. Bytes per worker and step: sends S and receives S (each server: n * S / s in and
// out).
// Errors, each with worker, server, shard, step and elapsed time where they apply:
//   DeadlineExceeded   limits.connect_timeout_ms or limits.sync_timeout_ms passed; the server says
//                      which workers are missing, or is blamed itself when it says nothing
//   Unavailable        a server is gone; it is blamed. While connecting only after a few tries
//   what client_core.h says
// After an error the client is dead: every later call fails with it. Waits end at once when `abort`
// is requested, with its reason. Threads: one object, one call at a time, not always from the same
// thread; I/O happens in the calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
#include "ps_server/client/client_core.h"
#include "ps_server/core/partition.h"

namespace lockstep {

struct PsClientOptions {
  std::vector<Endpoint> servers;              // [server]
  std::vector<int32_t> server_of_shard = {};  // [shard]: head of its chain; empty: server = shard
  int32_t rank = 0;                           // index of the worker
  int64_t incarnation = 0;                    // larger in each later life of the same rank
  int64_t epoch = 0;
  std::string token;
  PsLayout layout;
  Limits limits;
  std::vector<int64_t> versions = {};  // ClientCoreOptions::versions
};

class PsClient {
 public:
  // Returns when every server has admitted this worker. `clock` and `abort` must outlive the
  // client.
  static absl::StatusOr<std::unique_ptr<PsClient>> Connect(const PsClientOptions& options,
                                                           const Clock& clock, const Abort& abort);
  virtual ~PsClient() = default;

  // Every shard has its start values already.
  virtual bool initialized() const = 0;
  // The least step of this worker that any shard had applied when it connected; and where the
  // worker goes on: ClientCore::Resume.
  virtual int64_t resume_step() const = 0;
  virtual absl::StatusOr<ResumePoint> Resume(std::optional<int64_t> own, bool restored) const = 0;

  // Rank 0, if !initialized(): the start values, whole flat space. They must stay as they are until
  // Pull(0) has returned.
  virtual absl::Status Init(std::span<const float> parameters) = 0;
  // Gradients of the flat space's elements [offset, offset + gradients.size()) for `step`, 1-based.
  // The pushes of a step cover the space once, in any order; an empty one does nothing. `gradients`
  // must stay as they are until Pull(step) has returned or the client is destroyed.
  virtual absl::Status Push(int64_t step, int64_t offset, std::span<const float> gradients) = 0;
  // Fetches the whole flat space once every shard answers for this worker's push of `step` (0: the
  // start values). SYNC: as it is after `step` steps. ASYNC: as it stands. BOUNDED: as it stands
  // once all others are far enough. K_OF_N: as it stands once the push is part of an update, or was
  // dropped.
  virtual absl::Status Pull(int64_t step, std::span<float> parameters) = 0;
  // Rows of a table alone: ClientCore::PushRows, PullRows. `rows` and the values must stay as they
  // are until PullRows(step) has returned.
  virtual absl::Status PushRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                                std::span<const float> gradients) = 0;
  virtual absl::Status PullRows(int64_t step, int32_t tensor, std::span<const int64_t> rows,
                                std::span<float> parameters) = 0;
  // The last Pull failed half-way: its target holds parts of two versions.
  virtual bool torn() const = 0;
  // [shard]: the newest version that this worker was given.
  virtual std::vector<int64_t> versions() const = 0;
  // K_OF_N: pushes that a shard has dropped, so far.
  virtual int64_t rejected() const = 0;

  // Ping-pong with the first server, small and large messages, before Init; rank 0 alone should
  // call it.
  virtual absl::StatusOr<LinkCost> MeasureLink() = 0;

  virtual Traffic traffic() const = 0;
};

}  // namespace lockstep
