// shard.h: one server's part of the parameters as a deterministic state machine, mode SYNC:
// (state, event, now) -> (state, messages). The same code runs behind gRPC and in a simulator.
//
// A step: each of the n workers pushes its gradients of the whole shard in chunks; chunks are
// staged. When the last worker's last chunk is there, the pushes are folded in rank order (whatever
// the order of arrival), SGD with momentum is applied, and version += 1. So a push is atomic, and
// the bits do not depend on timing. A pull waits for the version that it asks for. Invariants:
//  1. Update identity is (worker, incarnation, step, shard). A chunk of an applied step, or of
//  elements
//     staged already, is taken as delivered and counted, never applied again. The barrier counts
//     identities, not requests.
//  2. Steps of a worker come one by one: only version + 1 is staged, a later one is refused.
//  3. A worker that attaches again starts its unfinished push anew; a finished one stays. A newer
//     incarnation discards all that the older one staged; an older one is refused for good.
//  4. A reply is the version it names, however late it is sent: the parameters of a reply that is
//  still
//     held are never written to (the next update then works on a copy).
//  5. Staged bytes <= n * shard bytes <= staged_bytes_max, checked by Create.
//  6. When a pull has waited for sync_timeout_ms the shard is dead: it refuses that and every later
//     event with one DeadlineExceeded that names the missing workers, so all workers hear the same.
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
#include "ps_server/core/staging.h"

namespace lockstep {

struct ShardOptions {
  int32_t shard = 0;
  int64_t count = 0;
  int32_t world_size = 1;
  SgdOptions sgd;
  int64_t staged_bytes_max = 0;
  int64_t sync_timeout_ms = 0;
};

struct UpdateId {
  int32_t worker = 0;
  int64_t incarnation = 0;
  int64_t step = 0;  // 1-based
  int32_t shard = 0;
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
struct PullEvent {
  UpdateId id;          // the step is not looked at
  int64_t version = 0;  // reply once the shard has it
};
struct TickEvent {};  // time has passed
using ShardEvent = std::variant<AttachEvent, InitEvent, PushEvent, PullEvent, TickEvent>;

// Shared, because a reply may still be on its way when the shard moves on (invariant 4).
using SharedParameters = std::shared_ptr<const std::vector<float>>;

struct ShardReply {
  int32_t worker = 0;
  int64_t version = 0;
  SharedParameters parameters;
};
struct ShardRefusal {
  int32_t worker = 0;
  int64_t incarnation = 0;
  absl::Status status;
};
struct ShardUpdate {
  int64_t step = 0;
  int64_t version = 0;
  int64_t wait_ns = 0;  // from the first chunk of the step to the last
};
struct ShardOutput {
  std::vector<ShardReply> replies;
  std::vector<ShardRefusal> refusals;
  std::optional<ShardUpdate> update;
};

class Shard {
 public:
  // Errors: InvalidArgument, ResourceExhausted (invariant 5, with need and limit).
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
  struct Pull {
    int64_t version = 0;
    int64_t since_ns = 0;
  };
  struct Worker {
    int64_t incarnation = -1;
    int64_t last_step = 0;  // applied
    Staging staging;        // of last_step + 1
    std::optional<Pull> pull;
  };

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
  ShardUpdate Apply(int64_t now_ns);
  void Reply(ShardOutput* output);
  std::vector<std::string> MissingWorkers() const;
  std::string Missing() const;

  ShardOptions options_;
  absl::Status dead_;
  int64_t version_ = 0;
  int64_t duplicates_ = 0;
  int64_t first_chunk_ns_ = 0;  // of the step being staged
  Staging start_values_;
  std::shared_ptr<std::vector<float>> parameters_;  // null until the start values are complete
  std::vector<float> velocity_;
  std::vector<Worker> workers_;  // [rank]
};

}  // namespace lockstep
