// shard.h: one server's part of the parameters as a deterministic state machine:
// (state, event, now) -> (state, messages). The same code runs behind gRPC and in a simulator.
//
// A worker pushes its gradients of the whole shard for one step in chunks, which are staged. Whose
// complete pushes make an update, when, and who may read it, is the mode's policy
// (update_policy.h). They are summed (push_sum.h), the optimizer's step is made and version += 1.
// So a push is atomic, and in SYNC the bits do not depend on timing. MEAN (rules.optimizer.divisor
// is world_size) divides by the number of pushes in the update: all workers, those who are left of
// them, or k; a late push that is applied alone is divided by k. A pull waits until its worker's
// own push is applied, and as long as the mode's bound says. Invariants:
//  1. Update identity is (worker, incarnation, step, shard). A chunk of an applied step, or of
//     elements staged already, is taken as delivered and counted, never applied again. A barrier
//     counts identities, not requests.
//  2. Steps of a worker come one by one: only its last applied step + 1 is staged, a later one is
//     refused. So workers x steps pushes make exactly as many updates (ASYNC, BOUNDED), or one a
//     step (SYNC); K_OF_N: each is accepted, as part of one update, or rejected: dropped for good.
//  3. A worker that attaches again, being the same incarnation, begins its unfinished push anew;
//     only where some of that is summed (invariant 12) it pushes the same bits again, and what is
//     here of them stays. A newer incarnation discards all that the older one staged, or where some
//     of that is summed is refused until there is a new group; an older one is refused for good. A
//     new group discards all that is staged, and everybody attaches again.
//  4. A reply is the version it names, however late it is sent: parameters that somebody still
//     holds are never written to (the next update then goes to another buffer). A worker is owed
//     one reply at most, so there are at most n copies. One more is kept for who is behind: the
//     start values, until all have pushed; where all read one version a step (SYNC, and BOUNDED
//     with staleness 0) that of the step before, for who asks late, or was replaced and makes its
//     step again. A worker's versions go back only where it goes back to an earlier step.
//  5. Staged bytes <= n * shard bytes <= staged_bytes_max, checked by Create.
//  6. SYNC, K_OF_N: when a pull has waited for sync_timeout_ms the shard is dead until a new group
//     comes: it refuses that and every later event with one DeadlineExceeded that names the missing
//     workers, so all workers hear the same. ASYNC, BOUNDED: only that worker is refused.
//  7. SYNC: the last applied step of whoever is present is the version. ASYNC: the version is the
//     sum of them. BOUNDED: likewise, less the steps that invariant 11 skips.
//  8. EXACT: blocks are counted from the start of each tensor, wherever the shard was cut, so that
//     any number of servers makes the same bits as one sum over the whole flat space.
//  9. BOUNDED: a reply to a pull of step t contains every push of whoever is present up to step
//     t - staleness.
// 10. K_OF_N: whoever can still push is waited for; who has made rules.steps is not, so the last
//     updates are of fewer than k pushes.
// 11. BOUNDED: nobody who is present is more than staleness + 1 steps behind anybody else, so that
//     nobody waits longer than a step for each clock of the bound. Whoever comes back after a group
//     without it is staleness steps behind the first one, unless it was nearer: steps that it
//     missed are not made, as in SYNC.
// 12. SYNC, unless copies want whole pushes: what is here of every push that the next update waits
//     for is summed at once, and the optimizer's step made with it, into a version that nobody sees
//     before all pushes are whole; what it was made of is let go. Then the last chunk leaves little
//     to do. The present version, the one before and the optimizer's values stay what they are
//     until then: so a shard has three versions and two sets of those values.
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
#include "ps_server/core/partition.h"
#include "ps_server/core/push_sum.h"
#include "ps_server/core/rows.h"
#include "ps_server/core/rules.h"
#include "ps_server/core/shard_state.h"
#include "ps_server/core/staging.h"
#include "ps_server/core/update.h"
#include "ps_server/core/update_policy.h"

namespace lockstep {

struct ShardOptions {
  PsRules rules;
  int32_t shard = 0;
  ShardRange range;
  uint64_t layout = 0;  // StateFingerprintOf: of what its states belong to
  int32_t world_size = 1;
  int64_t staged_bytes_max = 0;
  int64_t sync_timeout_ms = 0;
  bool whole_pushes = false;  // ShardOutput.push is wanted
};

struct ShardChunk {
  int64_t offset = 0;  // from the start of the shard
  int64_t total = 0;   // of the whole shard, as the sender believes
  std::span<const Bytes> pieces;
  std::shared_ptr<const void> owner = nullptr;  // of the pieces' bytes; null: they are read at once
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
  int64_t base = 0;  // K_OF_N: the least round of any shard that its gradients were computed from
  // The chunk's pieces are these rows; it has no offset and total.
  std::optional<ShardRows> rows = {};
};
struct PullEvent {  // reply once the worker's push of id.step is applied; step 0: the start values
  UpdateId id;
};
struct TickEvent {};  // time has passed
// A new group: who is in it. Nothing is staged and nobody waits any more; what was applied stays.
struct RegroupEvent {
  std::vector<bool> present;  // [worker]; the others are waited for by nobody
};
using ShardEvent =
    std::variant<AttachEvent, InitEvent, PushEvent, PullEvent, TickEvent, RegroupEvent>;

struct ShardReply {
  int32_t worker = 0;
  int64_t step = 0;  // of its pull
  int64_t version = 0;
  SharedParameters parameters;  // sum_only: the sum
  bool rejected = false;        // K_OF_N: its push came late and was dropped
  int64_t round = 0;            // SYNC, K_OF_N: of this version
  int64_t least_step = 0;       // of any worker, that this version contains
  int64_t blocked_ns = 0;       // BOUNDED: how long nothing but the bound held it
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
  // What an update was made of, for copies of the shard, once SetSums has asked for it: the sum,
  // before its division (EXACT: after). Whoever lets go of it soon saves the shard a buffer.
  SharedParameters sum;
  std::optional<UpdateId> dropped;  // K_OF_N: this push came late
  std::optional<UpdateId> staged;   // this push has become whole, whatever came of it then
  SharedParameters push;            // its values, where options.whole_pushes
};

class Shard {
 public:
  // Errors: InvalidArgument (options that make no sense together), ResourceExhausted (invariant 5,
  // with need and limit).
  static absl::StatusOr<Shard> Create(const ShardOptions& options);

  // Begins with `state`. Errors: also InvalidArgument (it is not one of this shard), DataLoss (its
  // parts do not fit each other).
  static absl::StatusOr<Shard> Restore(const ShardOptions& options, const ShardState& state);

  // Whether ShardOutput.sum is wanted.
  void SetSums(bool wanted) { sums_ = wanted; }

  ShardOutput Handle(const ShardEvent& event, int64_t now_ns);
  // On a copy: applies what the primary applied, version() + 1, with the same bits, being in
  // `round` then. ASYNC, BOUNDED: if it was given the primary's pulls, too, where they were
  // answered. Errors: FailedPrecondition (an identity that is applied already, or is not its
  // worker's next; another round than this one or the next; no start values).
  absl::StatusOr<ShardUpdate> ApplySum(std::span<const UpdateId> pushes, int64_t round,
                                       const std::vector<float>& sum, int64_t now_ns);
  // On a copy: the primary dropped this push. Errors: as ApplySum.
  absl::Status ApplyDrop(const UpdateId& push);
  // Shares the parameters, copies the rest. REQUIRES: initialized().
  ShardState Save() const;
  // Of Save() what says who has pushed and read what: [worker].
  std::vector<WorkerMark> worker_marks() const;
  std::vector<StalenessMark> staleness_marks() const { return policy_->Save(); }

  int64_t version() const { return version_; }
  // SYNC, K_OF_N: updates that ended a round: all but those of one late push. ASYNC, BOUNDED: 0.
  int64_t round() const { return round_; }
  // K_OF_N: this worker makes steps again that are done here, and is not waited for until it is
  // through: it said so by a pull of a step before its last one.
  bool redoes(int32_t worker) const { return workers_[static_cast<size_t>(worker)].redoes; }
  bool initialized() const { return parameters_ != nullptr; }
  int64_t last_step(int32_t worker) const {
    return workers_[static_cast<size_t>(worker)].last_step;
  }
  // SYNC: elements of the next version that are made, while its pushes are not whole.
  int64_t made() const { return next_.made_elements; }
  int64_t duplicates() const { return duplicates_; }  // chunks taken a second time and ignored
  SharedParameters parameters() const { return parameters_; }

 private:
  // Parameters that whoever is at `step` reads, although the shard has moved on.
  struct Kept {
    int64_t step = 0;
    int64_t version = 0;
    std::shared_ptr<std::vector<float>> parameters;  // null: nobody needs any
  };

  // The next version, made block by block.
  struct Next {
    std::shared_ptr<std::vector<float>> parameters;  // null: it is not begun
    bool early = false;                              // it was begun before its pushes were whole
    std::vector<float> optimizer_state;              // then: after it
    OptimizerOptions optimizer;
    float sum_divisor = 1.0F;                 // EXACT
    std::shared_ptr<std::vector<float>> sum;  // where it is wanted
    std::vector<int64_t> here;  // SYNC: [block]: its elements that have come in chunks, of all
    std::vector<bool> made;     // [block]
    int64_t made_elements = 0;
    std::optional<NonFiniteValue> non_finite;
    size_t non_finite_block = 0;
  };

  explicit Shard(const ShardOptions& options);

  // Each returns why the event is refused.
  absl::Status On(const AttachEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const InitEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const PushEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const PullEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const TickEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status On(const RegroupEvent& event, int64_t now_ns, ShardOutput* output);
  absl::Status CheckWorker(int32_t worker) const;
  absl::Status CheckSender(const UpdateId& id) const;
  absl::Status CheckChunk(const ShardChunk& chunk) const;
  absl::Status CheckNext(const UpdateId& push) const;
  absl::StatusOr<Staging::Took> Stage(const PushEvent& event);
  void Begin(const PushEvent& event, int64_t now_ns);
  void OnWhole(const UpdateId& id, int64_t now_ns, ShardOutput* output);
  void Drop(int32_t worker);
  ShardUpdate Apply(const std::vector<int32_t>& due, int64_t now_ns, ShardOutput* output);
  void MakeEarly(const ShardChunk& chunk);
  void NoteHere(int64_t begin, int64_t end, int64_t sign);
  size_t BlockAt(int64_t element) const;
  void ForgetNext();
  void ForgetPush(ShardWorker* worker);
  void BeginNext(const OptimizerOptions& optimizer, bool early);
  void MakeBlock(std::span<const Staging* const> pushes, size_t index);
  void StepBlock(const SumBlock& block, const float* sum);
  std::shared_ptr<std::vector<float>> NewSum();
  // `ends_round`: in K_OF_N, it is not of a late push alone.
  OptimizerOptions OptimizerOf(size_t pushes, bool ends_round) const;
  OptimizerOptions OptimizerFor(const ShardUpdate& update, bool ends_round) const;
  void Commit(bool ends_round, ShardUpdate* update);
  bool KeepsThisVersion() const;
  void ReleaseKept();
  void TakeUp(const std::vector<bool>& present);
  bool ReadsKept(const ShardWorker& worker) const;
  void Reply(int64_t now_ns, ShardOutput* output);
  int32_t LongestWaiting() const;  // -1: nobody waits
  absl::Status Expired(int32_t worker, int64_t now_ns) const;
  std::string Missing(const std::vector<int32_t>& awaited, int64_t step) const;
  void ResetStaging(Staging* staging) const {
    staging->Reset(options_.range.count, options_.rules.wire_dtype);
  }
  bool MakesEarly() const { return options_.rules.mode == PsMode::kSync && !options_.whole_pushes; }
  ShardWorker& WorkerOf(const UpdateId& id) { return workers_[static_cast<size_t>(id.worker)]; }

  ShardOptions options_;
  std::unique_ptr<UpdatePolicy> policy_;
  std::vector<SumBlock> blocks_;
  absl::Status dead_;
  int64_t version_ = 0;
  int64_t round_ = 0;
  int64_t duplicates_ = 0;
  Staging start_values_;
  std::shared_ptr<std::vector<float>> parameters_;  // null until the start values are complete
  Kept kept_;
  Next next_;
  std::shared_ptr<std::vector<float>> spare_;  // a buffer that nobody reads any more
  bool sums_ = false;
  std::shared_ptr<std::vector<float>> sum_;  // lent out by ShardOutput.sum
  std::vector<float> optimizer_state_;
  std::vector<ShardWorker> workers_;  // [rank]
};

}  // namespace lockstep
