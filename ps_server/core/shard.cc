#include "ps_server/core/shard.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/numeric/fold.h"
#include "base/status.h"

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

}  // namespace

absl::StatusOr<Shard> Shard::Create(const ShardOptions& options) {
  if (options.count < 1 || options.world_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", options.shard, " of ", options.count,
                                                   " elements for ", options.world_size,
                                                   " workers: both must be at least 1"));
  }
  // Compared by division, because the product of two numbers from the network may not fit.
  if (options.count > options.staged_bytes_max / kElementBytes / options.world_size) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "shard ", options.shard, ": one push of each of ", options.world_size, " workers (",
        options.count, " elements of 4 bytes each) does not fit limits.staged_bytes_max ",
        options.staged_bytes_max, "; raise it or use more servers"));
  }
  return Shard(options);
}

Shard::Shard(const ShardOptions& options)
    : options_(options),
      velocity_(static_cast<size_t>(options.count), 0.0F),
      workers_(static_cast<size_t>(options.world_size)) {
  start_values_.Reset(options.count);
}

ShardOutput Shard::Handle(const ShardEvent& event, int64_t now_ns) {
  ShardOutput output;
  const bool tick = std::holds_alternative<TickEvent>(event);
  absl::Status status = tick ? absl::OkStatus() : dead_;
  if (status.ok()) {
    status = std::visit([&](const auto& e) { return On(e, now_ns, &output); }, event);
  }
  if (status.ok()) {
    Reply(&output);
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
  Worker& known = workers_[static_cast<size_t>(event.worker)];
  if (event.incarnation < known.incarnation || event.incarnation < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shard ", options_.shard, ": worker ", event.worker, " was replaced: incarnation ",
        event.incarnation, " is older than ", known.incarnation));
  }
  // What an unfinished push had staged may lack chunks that were on the old stream.
  if (event.incarnation > known.incarnation || !known.staging.complete()) {
    known.staging.Reset(options_.count);
  }
  known.incarnation = event.incarnation;
  known.pull.reset();
  if (event.worker == 0 && !initialized()) start_values_.Reset(options_.count);
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
  if (chunk.total != options_.count || bytes == 0 || bytes % kElementBytes != 0 ||
      chunk.offset < 0 || chunk.offset > options_.count || count > options_.count - chunk.offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard ", options_.shard, ": a chunk of ", bytes, " bytes at element ", chunk.offset,
        " of ", chunk.total, " does not fit a shard of ", options_.count, " elements of 4 bytes"));
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
  Worker& worker = workers_[static_cast<size_t>(event.id.worker)];
  if (event.id.step > worker.last_step + 1 || event.id.step < 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shard ", options_.shard, ": worker ", event.id.worker, " pushes step ", event.id.step,
        ", expected ", worker.last_step + 1, "; steps are pushed one by one"));
  }
  if (event.id.step <= worker.last_step) {
    ++duplicates_;
    return absl::OkStatus();
  }
  const bool first = std::all_of(workers_.begin(), workers_.end(),
                                 [](const Worker& w) { return w.staging.empty(); });
  if (first) first_chunk_ns_ = now_ns;
  const int64_t count = CountBytes(event.chunk.pieces) / kElementBytes;
  ASSIGN_OR_RETURN(const Staging::Took took,
                   worker.staging.Add(event.chunk.offset, count, event.chunk.pieces));
  if (took == Staging::Took::kDuplicate) {
    ++duplicates_;
    return absl::OkStatus();
  }
  const bool all = std::all_of(workers_.begin(), workers_.end(),
                               [](const Worker& w) { return w.staging.complete(); });
  if (all) output->update = Apply(now_ns);
  return absl::OkStatus();
}

absl::Status Shard::On(const PullEvent& event, int64_t now_ns, ShardOutput* /*output*/) {
  RETURN_IF_ERROR(CheckSender(event.id));
  if (event.version < 0 || event.version > version_ + 1) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", options_.shard, ": worker ",
                                                   event.id.worker, " pulls version ",
                                                   event.version, ", the shard is at ", version_));
  }
  // A pull that is asked again replaces the first: one reply is owed to a worker at any time.
  workers_[static_cast<size_t>(event.id.worker)].pull = Pull{event.version, now_ns};
  return absl::OkStatus();
}

ShardUpdate Shard::Apply(int64_t now_ns) {
  std::vector<float>& sum = workers_[0].staging.values();
  for (size_t r = 1; r < workers_.size(); ++r) {
    Fold(Dtype::kF32, ReduceOp::kSum, workers_[r].staging.values().data(), sum.data(),
         options_.count);
  }
  if (parameters_.use_count() > 1) {
    parameters_ = std::make_shared<std::vector<float>>(*parameters_);
  } else {
    // The last holder may have let go on another thread: its reads come before our writes.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  SgdStep(options_.sgd, sum.data(), velocity_.data(), parameters_->data(), options_.count);
  ++version_;
  for (Worker& worker : workers_) {
    worker.staging.Reset(options_.count);
    ++worker.last_step;
  }
  return {version_, version_, now_ns - first_chunk_ns_};
}

void Shard::Reply(ShardOutput* output) {
  if (!initialized()) return;
  for (size_t r = 0; r < workers_.size(); ++r) {
    std::optional<Pull>& pull = workers_[r].pull;
    if (!pull.has_value() || pull->version > version_) continue;
    output->replies.push_back({static_cast<int32_t>(r), version_, parameters_});
    pull.reset();
  }
}

absl::Status Shard::On(const TickEvent& /*event*/, int64_t now_ns, ShardOutput* output) {
  int64_t waited_ns = -1;
  for (const Worker& worker : workers_) {
    if (worker.pull.has_value()) waited_ns = std::max(waited_ns, now_ns - worker.pull->since_ns);
  }
  if (!dead_.ok() || waited_ns < options_.sync_timeout_ms * kNsPerMs) return absl::OkStatus();
  dead_ = Blame(absl::DeadlineExceededError(absl::StrCat(
                    "shard ", options_.shard, " waited ", waited_ns / kNsPerMs, " ms for ",
                    Missing(), " (limits.sync_timeout_ms ", options_.sync_timeout_ms, ")")),
                MissingWorkers());
  for (size_t r = 0; r < workers_.size(); ++r) {
    if (!workers_[r].pull.has_value()) continue;
    workers_[r].pull.reset();
    output->refusals.push_back({static_cast<int32_t>(r), workers_[r].incarnation, dead_});
  }
  return absl::OkStatus();
}

std::vector<std::string> Shard::MissingWorkers() const {
  if (!initialized()) return {"worker 0"};
  std::vector<std::string> missing;
  for (size_t r = 0; r < workers_.size(); ++r) {
    if (!workers_[r].staging.complete()) missing.push_back(absl::StrCat("worker ", r));
  }
  return missing;
}

std::string Shard::Missing() const {
  if (!initialized()) {
    return absl::StrCat("the start values of worker 0: ", start_values_.staged(), " of ",
                        options_.count, " elements are here");
  }
  std::string text = absl::StrCat("the push of step ", version_ + 1, " of ");
  const char* separator = "";
  for (size_t r = 0; r < workers_.size(); ++r) {
    const Worker& worker = workers_[r];
    if (worker.staging.complete()) continue;
    absl::StrAppend(&text, separator, "worker ", r, " (",
                    worker.incarnation < 0 ? std::string("not connected")
                                           : absl::StrCat(worker.staging.staged(), " of ",
                                                          options_.count, " elements are here"),
                    ")");
    separator = ", ";
  }
  return text;
}

}  // namespace lockstep
