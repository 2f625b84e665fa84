#include "ps_server/core/shard.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "ps_server/core/push_sum.h"

namespace lockstep {
namespace {

constexpr int64_t kElementBytes = 4;

UpdateId SenderOf(const AttachEvent& event) { return {event.worker, event.incarnation, 0, 0}; }
UpdateId SenderOf(const InitEvent& event) { return event.id; }
UpdateId SenderOf(const PushEvent& event) { return event.id; }
UpdateId SenderOf(const PullEvent& event) { return event.id; }
UpdateId SenderOf(const TickEvent& /*event*/) { return {}; }

int64_t CountBytes(std::span<const Bytes> pieces) {
  int64_t bytes = 0;
  for (const Bytes piece : pieces) bytes += static_cast<int64_t>(piece.size());
  return bytes;
}

absl::Status CheckOptions(const ShardOptions& options) {
  const std::string shard = absl::StrCat("shard ", options.shard);
  const int64_t count = options.range.count;
  if (count < 1 || options.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(shard, " of ", count, " elements for ",
                                                   options.world_size,
                                                   " workers: both must be at least 1"));
  }
  int64_t in_parts = 0;
  for (const TensorPart& part : options.range.parts) in_parts += part.count;
  if (in_parts != count) {
    return absl::InvalidArgumentError(
        absl::StrCat(shard, " of ", count, " elements has ", in_parts, " in its tensors"));
  }
  if (options.mode == PsMode::kAsync &&
      (options.order == PsOrder::kExact || options.sgd.divisor != 1.0F)) {
    return absl::InvalidArgumentError(absl::StrCat(
        shard, ": an asynchronous update is one push alone, so it has no order of sums and no ",
        "divisor; expected order RANK and divisor 1, not ", options.sgd.divisor));
  }
  // Compared by division, because the product of two numbers from the network may not fit.
  if (count > options.staged_bytes_max / kElementBytes / options.world_size) {
    return absl::ResourceExhaustedError(
        absl::StrCat(shard, ": one push of each of ", options.world_size, " workers (", count,
                     " elements of 4 bytes each) does not fit limits.staged_bytes_max ",
                     options.staged_bytes_max, "; raise it or use more servers"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Shard> Shard::Create(const ShardOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  return Shard(options);
}

Shard::Shard(const ShardOptions& options)
    : options_(options),
      policy_(options.mode == PsMode::kAsync ? MakeAsync(options.world_size) : MakeSyncBarrier()),
      velocity_(static_cast<size_t>(options.range.count), 0.0F),
      workers_(static_cast<size_t>(options.world_size)) {
  start_values_.Reset(options.range.count);
}

ShardOutput Shard::Handle(const ShardEvent& event, int64_t now_ns) {
  ShardOutput output;
  const bool tick = std::holds_alternative<TickEvent>(event);
  absl::Status status = tick ? absl::OkStatus() : dead_;
  if (status.ok()) {
    status = std::visit([&](const auto& e) { return On(e, now_ns, &output); }, event);
  }
  if (status.ok()) {
    Reply(now_ns, &output);
  } else {
    const UpdateId sender = std::visit([](const auto& e) { return SenderOf(e); }, event);
    output.refusals.push_back({sender.worker, sender.incarnation, std::move(status)});
  }
  return output;
}

absl::Status Shard::CheckWorker(int32_t worker) const {
  if (worker >= 0 && worker < options_.world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shard ", options_.shard, ": worker ", worker,
                                                 " is not one of the ", options_.world_size,
                                                 " workers"));
}

absl::Status Shard::On(const AttachEvent& event, int64_t /*now_ns*/, ShardOutput* /*output*/) {
  RETURN_IF_ERROR(CheckWorker(event.worker));
  ShardWorker& known = workers_[static_cast<size_t>(event.worker)];
  if (event.incarnation < known.incarnation || event.incarnation < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shard ", options_.shard, ": worker ", event.worker, " was replaced: incarnation ",
        event.incarnation, " is older than ", known.incarnation));
  }
  // What an unfinished push had staged may lack chunks that were on the old stream.
  if (event.incarnation > known.incarnation || !known.staging.complete()) {
    known.staging.Reset(options_.range.count);
  }
  known.incarnation = event.incarnation;
  known.pull.reset();
  if (event.worker == 0 && !initialized()) start_values_.Reset(options_.range.count);
  return absl::OkStatus();
}

absl::Status Shard::CheckSender(const UpdateId& id) const {
  RETURN_IF_ERROR(CheckWorker(id.worker));
  const int64_t known = workers_[static_cast<size_t>(id.worker)].incarnation;
  if (id.incarnation != known) {
    return absl::FailedPreconditionError(absl::StrCat("shard ", options_.shard, ": worker ",
                                                      id.worker, " speaks as incarnation ",
                                                      id.incarnation, ", attached is ", known));
  }
  if (id.shard != options_.shard) {
    return absl::InvalidArgumentError(absl::StrCat("worker ", id.worker, " speaks to shard ",
                                                   id.shard, ", this is shard ", options_.shard));
  }
  return absl::OkStatus();
}

absl::Status Shard::CheckChunk(const ShardChunk& chunk) const {
  const int64_t bytes = CountBytes(chunk.pieces);
  const int64_t count = bytes / kElementBytes;
  if (chunk.total != options_.range.count || bytes == 0 || bytes % kElementBytes != 0 ||
      chunk.offset < 0 || chunk.offset > options_.range.count ||
      count > options_.range.count - chunk.offset) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", options_.shard, ": a chunk of ", bytes,
                                                   " bytes at element ", chunk.offset, " of ",
                                                   chunk.total, " does not fit a shard of ",
                                                   options_.range.count, " elements of 4 bytes"));
  }
  return absl::OkStatus();
}

absl::Status Shard::On(const InitEvent& event, int64_t /*now_ns*/, ShardOutput* /*output*/) {
  RETURN_IF_ERROR(CheckSender(event.id));
  RETURN_IF_ERROR(CheckChunk(event.chunk));
  if (event.id.worker != 0) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", options_.shard,
                                                   ": start values by worker ", event.id.worker,
                                                   "; only worker 0 sends them"));
  }
  if (initialized()) {
    ++duplicates_;
    return absl::OkStatus();
  }
  const int64_t count = CountBytes(event.chunk.pieces) / kElementBytes;
  ASSIGN_OR_RETURN(const Staging::Took took,
                   start_values_.Add(event.chunk.offset, count, event.chunk.pieces));
  if (took == Staging::Took::kDuplicate) ++duplicates_;
  if (start_values_.complete()) {
    parameters_ = std::make_shared<std::vector<float>>(std::move(start_values_.values()));
    version_0_ = parameters_;
  }
  return absl::OkStatus();
}

absl::Status Shard::On(const PushEvent& event, int64_t now_ns, ShardOutput* output) {
  RETURN_IF_ERROR(CheckSender(event.id));
  RETURN_IF_ERROR(CheckChunk(event.chunk));
  if (!initialized()) {
    return absl::FailedPreconditionError(
        absl::StrCat("shard ", options_.shard, ": worker ", event.id.worker, " pushes step ",
                     event.id.step, " before worker 0 has sent the start values"));
  }
  ShardWorker& worker = WorkerOf(event.id);
  if (event.id.step > worker.last_step + 1 || event.id.step < 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shard ", options_.shard, ": worker ", event.id.worker, " pushes step ", event.id.step,
        ", expected ", worker.last_step + 1, "; steps are pushed one by one"));
  }
  if (event.id.step <= worker.last_step) {
    ++duplicates_;
    return absl::OkStatus();
  }
  if (worker.staging.empty()) worker.push_start_ns = now_ns;
  const int64_t count = CountBytes(event.chunk.pieces) / kElementBytes;
  ASSIGN_OR_RETURN(const Staging::Took took,
                   worker.staging.Add(event.chunk.offset, count, event.chunk.pieces));
  if (took == Staging::Took::kDuplicate) {
    ++duplicates_;
    return absl::OkStatus();
  }
  worker.push_end_ns = now_ns;
  if (!worker.staging.complete()) return absl::OkStatus();
  const std::vector<int32_t> due = policy_->Due(event.id.worker, workers_);
  if (!due.empty()) output->update = Apply(due, now_ns);
  return absl::OkStatus();
}

absl::Status Shard::On(const PullEvent& event, int64_t now_ns, ShardOutput* /*output*/) {
  RETURN_IF_ERROR(CheckSender(event.id));
  ShardWorker& worker = WorkerOf(event.id);
  if (event.id.step < 0 || event.id.step > worker.last_step + 1) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", options_.shard, ": worker ",
                                                   event.id.worker, " pulls step ", event.id.step,
                                                   ", its last applied one is ", worker.last_step));
  }
  // A pull that is asked again replaces the first: one reply is owed to a worker at any time.
  worker.pull = ShardWorker::Pull{event.id.step, now_ns};
  return absl::OkStatus();
}

ShardUpdate Shard::Apply(const std::vector<int32_t>& due, int64_t now_ns) {
  ShardUpdate update;
  std::vector<float*> pushes;
  for (const int32_t r : due) {
    ShardWorker& worker = workers_[static_cast<size_t>(r)];
    pushes.push_back(worker.staging.values().data());
    update.pushes.push_back({r, worker.push_start_ns, worker.push_end_ns});
    update.wait_ns = std::max(update.wait_ns, now_ns - worker.push_start_ns);
    update.step = ++worker.last_step;
  }
  const bool all_started = std::all_of(workers_.begin(), workers_.end(),
                                       [](const ShardWorker& w) { return w.last_step > 0; });
  if (all_started) version_0_.reset();
  SgdOptions sgd = options_.sgd;
  if (options_.order == PsOrder::kExact) {
    update.non_finite = SumExactly(options_.range.parts, sgd.divisor, pushes);
    sgd.divisor = 1;
  } else {
    SumInRankOrder(pushes, options_.range.count);
  }
  PrepareToWrite();
  SgdStep(sgd, pushes[0], velocity_.data(), parameters_->data(), options_.range.count);
  update.version = ++version_;
  for (const int32_t r : due) workers_[static_cast<size_t>(r)].staging.Reset(options_.range.count);
  policy_->OnApply(now_ns, &update);
  return update;
}

void Shard::PrepareToWrite() {
  if (parameters_.use_count() > 1) {
    parameters_ = std::make_shared<std::vector<float>>(*parameters_);
  } else {
    // The last holder may have let go on another thread: its reads come before our writes.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
}

ShardReply Shard::ReplyTo(int32_t r) const {
  const ShardWorker& worker = workers_[static_cast<size_t>(r)];
  const bool starts = worker.last_step == 0 && version_0_ != nullptr;
  return {.worker = r,
          .step = worker.pull->step,
          .version = starts ? 0 : version_,
          .parameters = starts ? version_0_ : parameters_};
}

void Shard::Reply(int64_t now_ns, ShardOutput* output) {
  if (!initialized()) return;
  for (size_t r = 0; r < workers_.size(); ++r) {
    ShardWorker& worker = workers_[r];
    if (!worker.pull.has_value() || worker.pull->step > worker.last_step) continue;
    output->replies.push_back(ReplyTo(static_cast<int32_t>(r)));
    if (worker.last_step > 0) policy_->OnRead(static_cast<int32_t>(r), now_ns);
    worker.pull.reset();
  }
}

absl::Status Shard::On(const TickEvent& /*event*/, int64_t now_ns, ShardOutput* output) {
  const int64_t timeout_ns = options_.sync_timeout_ms * kNsPerMs;
  for (int32_t late = LongestWaiting(); late >= 0; late = LongestWaiting()) {
    if (now_ns - workers_[static_cast<size_t>(late)].pull->since_ns < timeout_ns) break;
    const absl::Status expired = Expired(late, now_ns);
    if (policy_->AllWaitTogether()) dead_ = expired;
    for (size_t r = 0; r < workers_.size(); ++r) {
      const auto worker = static_cast<int32_t>(r);
      if (!workers_[r].pull.has_value() || (dead_.ok() && worker != late)) continue;
      workers_[r].pull.reset();
      output->refusals.push_back({worker, workers_[r].incarnation, expired});
    }
  }
  return absl::OkStatus();
}

int32_t Shard::LongestWaiting() const {
  int32_t longest = -1;
  for (size_t r = 0; r < workers_.size(); ++r) {
    if (!workers_[r].pull.has_value()) continue;
    if (longest < 0 ||
        workers_[r].pull->since_ns < workers_[static_cast<size_t>(longest)].pull->since_ns) {
      longest = static_cast<int32_t>(r);
    }
  }
  return longest;
}

// Why the pull of `worker` is given up, with what it waits for.
absl::Status Shard::Expired(int32_t worker, int64_t now_ns) const {
  const ShardWorker& waiting = workers_[static_cast<size_t>(worker)];
  std::vector<std::string> blamed;
  std::string missing;
  if (!initialized()) {
    blamed = {"worker 0"};
    missing = absl::StrCat("the start values of worker 0: ", start_values_.staged(), " of ",
                           options_.range.count, " elements are here");
  } else {
    missing = absl::StrCat("the push of step ", waiting.pull->step, " of ");
    for (const int32_t r : policy_->AwaitedBy(worker, workers_)) {
      const ShardWorker& awaited = workers_[static_cast<size_t>(r)];
      const std::string here = awaited.incarnation < 0
                                   ? "not connected"
                                   : absl::StrCat(awaited.staging.staged(), " of ",
                                                  options_.range.count, " elements are here");
      absl::StrAppend(&missing, blamed.empty() ? "" : ", ", "worker ", r, " (", here, ")");
      blamed.push_back(absl::StrCat("worker ", r));
    }
  }
  const int64_t waited_ms = (now_ns - waiting.pull->since_ns) / kNsPerMs;
  return Blame(absl::DeadlineExceededError(absl::StrCat(
                   "shard ", options_.shard, " waited ", waited_ms, " ms for ", missing,
                   " (limits.sync_timeout_ms ", options_.sync_timeout_ms, ")")),
               blamed);
}

}  // namespace lockstep
