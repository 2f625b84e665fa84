#include "ps_server/core/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

UpdateId SenderOf(const AttachEvent& event) { return {event.worker, event.incarnation, 0, 0}; }
UpdateId SenderOf(const InitEvent& event) { return event.id; }
UpdateId SenderOf(const PushEvent& event) { return event.id; }
UpdateId SenderOf(const PullEvent& event) { return event.id; }
UpdateId SenderOf(const TickEvent& /*event*/) { return {}; }
UpdateId SenderOf(const RegroupEvent& /*event*/) { return {}; }

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
  RETURN_IF_ERROR(Annotate(CheckRules(options.rules, options.world_size), shard));
  // Compared by division, because the product of two numbers from the network may not fit.
  if (count > options.staged_bytes_max / kStagedBytesPerElement / options.world_size) {
    return absl::ResourceExhaustedError(
        absl::StrCat(shard, ": one push of each of ", options.world_size, " workers (", count,
                     " elements of 4 bytes each) does not fit limits.staged_bytes_max ",
                     options.staged_bytes_max, "; raise it or use more servers"));
  }
  return absl::OkStatus();
}

std::unique_ptr<UpdatePolicy> MakePolicy(const PsRules& rules, int32_t world_size) {
  switch (rules.mode) {
    case PsMode::kSync:
      return MakeSyncBarrier();
    case PsMode::kAsync:
      return MakeAsync(world_size);
    case PsMode::kBounded:
      return MakeBounded(world_size, rules.staleness);
    case PsMode::kKOfN:
      return MakeKOfN(rules);
  }
  CHECK(false) << "no such mode: " << static_cast<int>(rules.mode);
}

}  // namespace

absl::StatusOr<Shard> Shard::Create(const ShardOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  return Shard(options);
}

Shard::Shard(const ShardOptions& options)
    : options_(options),
      policy_(MakePolicy(options.rules, options.world_size)),
      blocks_(SumBlocksOf(options.range.parts)),
      optimizer_state_(static_cast<size_t>(options.range.count * SlotsOf(options.rules)), 0.0F),
      workers_(static_cast<size_t>(options.world_size)) {
  ResetStaging(&start_values_);
  for (ShardWorker& worker : workers_) ResetStaging(&worker.staging);
  ForgetNext();
}

ShardOutput Shard::Handle(const ShardEvent& event, int64_t now_ns) {
  ShardOutput output;
  const bool tick = std::holds_alternative<TickEvent>(event);
  const bool regroup = std::holds_alternative<RegroupEvent>(event);
  absl::Status status = tick || regroup ? absl::OkStatus() : dead_;
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
  if (!known.present) {
    return absl::FailedPreconditionError(
        absl::StrCat("shard ", options_.shard, ": worker ", event.worker, " is not in this group"));
  }
  if (event.incarnation < known.incarnation || event.incarnation < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shard ", options_.shard, ": worker ", event.worker, " was replaced: incarnation ",
        event.incarnation, " is older than ", known.incarnation));
  }
  if (event.incarnation > known.incarnation) {
    if (next_.parameters != nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "shard ", options_.shard, ": worker ", event.worker, " comes as incarnation ",
          event.incarnation, ", and some of what incarnation ", known.incarnation,
          " pushed is in the next version; a new group begins that anew"));
    }
    ForgetPush(&known);
  } else if (next_.parameters == nullptr && !known.staging.complete()) {
    ForgetPush(&known);  // what comes now may be another gradient of the step
  }
  known.incarnation = event.incarnation;
  known.redoes = false;
  known.pull.reset();
  if (event.worker == 0 && !initialized()) ResetStaging(&start_values_);
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
  const int64_t element_bytes = SizeOf(options_.rules.wire_dtype);
  const int64_t count = bytes / element_bytes;
  if (chunk.total != options_.range.count || bytes == 0 || bytes % element_bytes != 0 ||
      chunk.offset < 0 || chunk.offset > options_.range.count ||
      count > options_.range.count - chunk.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", options_.shard, ": a chunk of ", bytes, " bytes at element ",
                     chunk.offset, " of ", chunk.total, " does not fit a shard of ",
                     options_.range.count, " elements of ", element_bytes, " bytes"));
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
  const int64_t count = CountBytes(event.chunk.pieces) / SizeOf(options_.rules.wire_dtype);
  ASSIGN_OR_RETURN(
      const Staging::Took took,
      start_values_.Add(event.chunk.offset, count, event.chunk.pieces, event.chunk.owner));
  if (took == Staging::Took::kDuplicate) ++duplicates_;
  if (start_values_.complete()) {
    parameters_ = std::make_shared<std::vector<float>>(static_cast<size_t>(options_.range.count));
    start_values_.Read(0, options_.range.count, parameters_->data());
    ResetStaging(&start_values_);
  }
  return absl::OkStatus();
}

absl::Status Shard::On(const PushEvent& event, int64_t now_ns, ShardOutput* output) {
  RETURN_IF_ERROR(CheckSender(event.id));
  if (!event.rows.has_value()) RETURN_IF_ERROR(CheckChunk(event.chunk));
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
  if (worker.staging.empty()) {
    Begin(event, now_ns);
  } else if (options_.rules.mode == PsMode::kKOfN && event.base != worker.base) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard ", options_.shard, ": worker ", event.id.worker, " pushes step ", event.id.step,
        " from round ", event.base, ", its first chunk said ", worker.base));
  }
  ASSIGN_OR_RETURN(const Staging::Took took, Stage(event));
  if (took == Staging::Took::kDuplicate) {
    ++duplicates_;
    return absl::OkStatus();
  }
  worker.push_end_ns = now_ns;
  if (worker.staging.complete()) OnWhole(event.id, now_ns, output);
  const bool chunk = !event.rows.has_value() && worker.present;
  if (MakesEarly() && chunk && !output->update.has_value()) MakeEarly(event.chunk);
  return absl::OkStatus();
}

absl::StatusOr<Staging::Took> Shard::Stage(const PushEvent& event) {
  Staging& staging = WorkerOf(event.id).staging;
  if (event.rows.has_value()) return staging.AddRows(*event.rows, event.chunk.pieces);
  const int64_t count = CountBytes(event.chunk.pieces) / SizeOf(options_.rules.wire_dtype);
  return staging.Add(event.chunk.offset, count, event.chunk.pieces, event.chunk.owner);
}

void Shard::Begin(const PushEvent& event, int64_t now_ns) {
  ShardWorker& worker = WorkerOf(event.id);
  worker.push_start_ns = now_ns;
  worker.base = event.base;
  worker.late = false;
}

void Shard::OnWhole(const UpdateId& id, int64_t now_ns, ShardOutput* output) {
  ShardWorker& worker = WorkerOf(id);
  worker.late = options_.rules.mode == PsMode::kKOfN && worker.base < round_;
  worker.redoes = false;
  output->staged = id;
  if (options_.whole_pushes) {
    auto push = std::make_shared<std::vector<float>>(static_cast<size_t>(options_.range.count));
    worker.staging.Read(0, options_.range.count, push->data());
    output->push = std::move(push);
  }
  if (policy_->Drops(worker)) {
    output->dropped = id;
    Drop(id.worker);
  }
  const std::vector<int32_t> due = policy_->Due(workers_);
  if (!due.empty()) output->update = Apply(due, now_ns, output);
}

absl::Status Shard::On(const RegroupEvent& event, int64_t /*now_ns*/, ShardOutput* /*output*/) {
  if (event.present.size() != workers_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", options_.shard, ": a group of ",
                                                   event.present.size(), " workers, expected ",
                                                   workers_.size()));
  }
  dead_ = absl::OkStatus();
  for (ShardWorker& worker : workers_) {
    worker.redoes = false;
    worker.pull.reset();
    ResetStaging(&worker.staging);
  }
  ForgetNext();
  TakeUp(event.present);
  if (!initialized()) ResetStaging(&start_values_);
  ReleaseKept();
  return absl::OkStatus();
}

// Whoever comes back joins the others where they are now: a barrier at its version; a bound no
// further behind than somebody who was always there could be when the others go on from what they
// have read. Further behind than that nobody is who was there: a state does not say who was.
void Shard::TakeUp(const std::vector<bool>& present) {
  int64_t first = 0;
  for (size_t r = 0; r < workers_.size(); ++r) {
    if (present[r]) first = std::max(first, workers_[r].last_step);
  }
  const int64_t behind = options_.rules.staleness;
  for (size_t r = 0; r < workers_.size(); ++r) {
    ShardWorker& worker = workers_[r];
    const bool comes_back = !worker.present || worker.last_step < first - behind - 1;
    worker.present = present[r];
    if (!worker.present) continue;
    if (options_.rules.mode == PsMode::kSync) worker.last_step = version_;
    if (options_.rules.mode == PsMode::kBounded && comes_back) {
      worker.last_step = std::max(worker.last_step, first - behind);
    }
  }
}

}  // namespace lockstep
