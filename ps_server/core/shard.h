// shard.h: one server's part of the parameters as a deterministic state machine:
// (state, event, now) -> (state, messages). The same code runs behind gRPC and in a simulator.
//
// A worker pushes its gradients of the whole shard for one step in chunks, which are staged. Whose
// complete pushes make an update, and when, is the mode's policy (update_policy.h): SYNC waits for
// all n workers and sums their pushes (push_sum.h); ASYNC takes each alone, at once. Then SGD with
// momentum is applied and version += 1. So a push is atomic, and in SYNC the bits do not depend on
// timing. A pull waits until its worker's own push is applied. Invariants:
//  1. Update identity is (worker, incarnation, step, shard). A chunk of an applied step, or of
//     elements staged already, is taken as delivered and counted, never applied again. A barrier
//     counts identities, not requests.
//  2. Steps of a worker come one by one: only its last applied step + 1 is staged, a later one is
//     refused. So workers x steps pushes make exactly as many updates (ASYNC), or one a step
//     (SYNC).
//  3. A worker that attaches again starts its unfinished push anew; a finished one stays. A newer
//     incarnation discards all that the older one staged; an older one is refused for good.
//  4. A reply is the version it names, however late it is sent: the parameters of a reply that is
//     still held are never written to (the next update then works on a copy). A worker is owed one
//     reply at most, so there are at most n copies, and one of the start values: whoever has not
//     pushed yet starts from those, however far others are. A worker's versions never go back.
//  5. Staged bytes <= n * shard bytes <= staged_bytes_max, checked by Create.
//  6. SYNC: when a pull has waited for sync_timeout_ms the shard is dead: it refuses that and every
//     later event with one DeadlineExceeded that names the missing workers, so all workers hear the
//     same. ASYNC: only that worker is refused; what it waited for is its own push.
//  7. SYNC: a worker's last applied step is the version. ASYNC: the version is the sum of them.
//  8. EXACT: blocks are counted from the start of each tensor, wherever the shard was cut, so that
//     any number of servers makes the same bits as one sum over the whole flat space.
// Units: elements (float) unless said; times in ns. Pure: no I/O, no threads, no clock.
// Paper: Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/numeric/sgd.h"
#include "ps_server/core/partition.h"
#include "ps_server/core/staging.h"
#include "ps_server/core/update.h"
#include "ps_server/core/update_policy.h"

namespace lockstep {

struct ShardOptions {
  PsMode mode = PsMode::kSync;
  PsOrder order = PsOrder::kRank;  // kExact: SYNC only
  int32_t shard = 0;
  ShardRange range;
  int32_t world_size = 1;
  SgdOptions sgd;  // ASYNC: the divisor is 1
  int64_t staged_bytes_max = 0;
  int64_t sync_timeout_ms = 0;
};

struct ShardChunk {
  int64_t offset = 0;  // from the start of the shard
  int64_t total = 0;   // of the whole shard, as the sender believes
  std::span<const Bytes> pieces;
};

struct AttachEvent {  // a worker's new stream
  int32_t worker = 0;
  int64_t incarnation = 0;
};
struct InitEvent {  // start values, by worker 0
  UpdateId id;
  ShardChunk chunk;
};
struct PushEvent {
  UpdateId id;
  ShardChunk chunk;
};
struct PullEvent {  // reply once the worker's push of id.step is applied; step 0: the start values
  UpdateId id;
};
struct TickEvent {};  // time has passed
using ShardEvent = std::variant<AttachEvent, InitEvent, PushEvent, PullEvent, TickEvent>;

// Shared, because a reply may still be on its way when the shard moves on (invariant 4).
using SharedParameters = std::shared_ptr<const std::vector<float>>;

struct ShardReply {
  int32_t worker = 0;
  int64_t step = 0;  // of its pull
  int64_t version = 0;
  SharedParameters parameters;
};
struct ShardRefusal {
  int32_t worker = 0;
  int64_t incarnation = 0;
  absl::Status status;
};
struct ShardOutput {
  std::vector<ShardReply> replies;
  std::vector<ShardRefusal> refusals;
  std::optional<ShardUpdate> update;
};

class Shard {
 public:
  // Errors: InvalidArgument (options that make no sense together), ResourceExhausted (invariant 5,
  // with need and limit).
  static absl::StatusOr<Shard> Create(const ShardOptions& options);

  ShardOutput Handle(const ShardEvent& event, int64_t now_ns);

  int64_t version() const { return version_; }
  bool initialized() const { return parameters_ != nullptr; }
  int64_t last_step(int32_t worker) const {
    return workers_[static_cast<size_t>(worker)].last_step;
  }
  int64_t duplicates() const { return duplicates_; }  // chunks taken a second time and ignored
  SharedParameters parameters() const { return parameters_; }

 private:
  explicit Shard(const ShardOptions& options);

  // Each returns why the event is refused.
  absl::Status On(const AttachEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const InitEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const PushEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const PullEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const TickEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status CheckWorker(int32_t worker) const;
  absl::Status CheckSender(const UpdateId& id) const;
  absl::Status CheckChunk(const ShardChunk& chunk) const;
  ShardUpdate Apply(const std::vector<int32_t>& due, int64_t now_ns);
  void PrepareToWrite();
  ShardReply ReplyTo(int32_t worker) const;
  void Reply(int64_t now_ns, ShardOutput* output);
  int32_t LongestWaiting() const;  // -1: nobody waits
  absl::Status Expired(int32_t worker, int64_t now_ns) const;
  ShardWorker& WorkerOf(const UpdateId& id) { return workers_[static_cast<size_t>(id.worker)]; }

  ShardOptions options_;
  std::unique_ptr<UpdatePolicy> policy_;
  absl::Status dead_;
  int64_t version_ = 0;
  int64_t duplicates_ = 0;
  Staging start_values_;
  std::shared_ptr<std::vector<float>> parameters_;  // null until the start values are complete
  SharedParameters version_0_;                      // until every worker has pushed
  std::vector<float> velocity_;
  std::vector<ShardWorker> workers_;  // [rank]
};

}  // namespace lockstep
