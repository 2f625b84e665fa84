// The part of Shard that makes updates: out of workers' pushes, or of what a primary made.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/numeric/fold.h"
#include "base/status.h"
#include "ps_server/core/buffer.h"
#include "ps_server/core/push_sum.h"
#include "ps_server/core/shard.h"

namespace lockstep {

ShardUpdate Shard::Apply(const std::vector<int32_t>& due, int64_t now_ns, ShardOutput* output) {
  ShardUpdate update;
  std::vector<const Staging*> pushes;
  for (const ShardWorker& worker : workers_) update.held_bytes += worker.staging.held_bytes();
  for (const int32_t r : due) {
    const ShardWorker& worker = workers_[static_cast<size_t>(r)];
    pushes.push_back(&worker.staging);
    update.ids.push_back({r, worker.incarnation, worker.last_step + 1, options_.shard});
    update.pushes.push_back({r, worker.push_start_ns, worker.push_end_ns});
    update.wait_ns = std::max(update.wait_ns, now_ns - worker.push_start_ns);
    if (worker.late) update.late.push_back(r);
  }
  const bool ends_round = update.late.size() < due.size();
  policy_->OnApply(now_ns, &update);
  if (next_.parameters == nullptr) BeginNext(OptimizerFor(update, ends_round), /*early=*/false);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (!next_.made[block]) MakeBlock(pushes, block);
  }
  update.non_finite = next_.non_finite;
  if (update.non_finite.has_value()) {
    update.non_finite->worker = due[static_cast<size_t>(update.non_finite->worker)];
  }
  output->sum = std::move(next_.sum);
  Commit(ends_round, &update);
  return update;
}

// SYNC: what has come of every push that the next update waits for is summed, and its step made, so
// that little is left to do when the last chunk comes. Nobody sees it before all are whole. Their
// bytes go then, so that the next chunks come to memory that is in the cache.
void Shard::MakeEarly(const ShardChunk& chunk) {
  std::vector<Staging*> pushes;
  for (ShardWorker& worker : workers_) {
    if (worker.present) pushes.push_back(&worker.staging);
  }
  const auto awaited = static_cast<int64_t>(pushes.size());
  const int64_t end = chunk.offset + CountBytes(chunk.pieces) / SizeOf(options_.rules.wire_dtype);
  NoteHere(chunk.offset, end, 1);
  for (size_t k = BlockAt(chunk.offset); k < blocks_.size() && blocks_[k].begin < end; ++k) {
    const SumBlock& block = blocks_[k];
    if (next_.here[k] < block.count * awaited) continue;
    if (next_.parameters == nullptr) {
      BeginNext(OptimizerOf(pushes.size(), /*ends_round=*/true), /*early=*/true);
    }
    MakeBlock({pushes.begin(), pushes.end()}, k);
    for (Staging* const push : pushes) push->Release(block.begin, block.count);
  }
}

size_t Shard::BlockAt(int64_t element) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), element,
                       [](int64_t at, const SumBlock& block) { return at < block.begin; });
  return static_cast<size_t>(after - blocks_.begin()) - 1;
}

// Elements [begin, end) of somebody's push have come, or with -1 are gone. Each is counted once, as
// it is staged once, so a block that has as many as all pushes together is whole.
void Shard::NoteHere(int64_t begin, int64_t end, int64_t sign) {
  for (size_t k = BlockAt(begin); k < blocks_.size() && blocks_[k].begin < end; ++k) {
    const SumBlock& block = blocks_[k];
    next_.here[k] +=
        sign * (std::min(end, block.begin + block.count) - std::max(begin, block.begin));
  }
}

// The worker begins its push anew. REQUIRES: none of it is in the next version.
void Shard::ForgetPush(ShardWorker* worker) {
  if (MakesEarly()) {
    for (const auto& [begin, end] : worker->staging.covered()) NoteHere(begin, end, -1);
  }
  ResetStaging(&worker->staging);
}

// All begin their pushes anew, or it was published.
void Shard::ForgetNext() {
  if (next_.parameters != nullptr) spare_ = std::move(next_.parameters);
  next_.here.assign(MakesEarly() ? blocks_.size() : 0, 0);
  next_.made.assign(blocks_.size(), false);
  next_.made_elements = 0;
  next_.non_finite.reset();
  next_.sum.reset();
}

// Where it is made. Whoever holds the present parameters, or is behind, keeps them: then the new
// ones go elsewhere. Early, also the version before stays what it is, and the optimizer's values.
void Shard::BeginNext(const OptimizerOptions& optimizer, bool early) {
  next_.early = early;
  next_.optimizer = optimizer;
  next_.sum_divisor = 1.0F;
  if (options_.rules.order == PsOrder::kExact) {
    next_.sum_divisor = std::exchange(next_.optimizer.divisor, 1.0F);
  }
  const bool keep = early || KeepsThisVersion();
  std::shared_ptr<std::vector<float>> target = parameters_;
  if (keep) target = std::exchange(early ? spare_ : kept_.parameters, nullptr);
  if (target == nullptr || !IsSole(target, keep ? 1 : 2)) {
    target = std::make_shared<std::vector<float>>(static_cast<size_t>(options_.range.count));
  }
  next_.parameters = std::move(target);
  if (early) next_.optimizer_state.resize(optimizer_state_.size());
}

// One block of the next version, from its elements of all pushes.
void Shard::MakeBlock(std::span<const Staging* const> pushes, size_t index) {
  const SumBlock& block = blocks_[index];
  if (sums_ && next_.sum == nullptr) next_.sum = NewSum();
  std::array<float, kSumElements> own;  // written before it is read
  float* const sum = next_.sum == nullptr ? own.data() : next_.sum->data() + block.begin;
  if (options_.rules.order == PsOrder::kExact) {
    const std::optional<NonFiniteValue> found = SumExactly(pushes, block, next_.sum_divisor, sum);
    const bool first = !next_.non_finite.has_value() || index < next_.non_finite_block;
    if (found.has_value() && first) {
      next_.non_finite = found;
      next_.non_finite_block = index;
    }
  } else {
    SumInRankOrder(pushes, block, sum);
  }
  StepBlock(block, sum);
  next_.made[index] = true;
  next_.made_elements += block.count;
}

void Shard::StepBlock(const SumBlock& block, const float* sum) {
  float* const target = next_.parameters->data() + block.begin;
  if (options_.rules.sum_only) {
    std::copy_n(sum, block.count, target);
    return Divide(target, next_.optimizer.divisor, block.count);
  }
  // The values of a slot stand `count` elements after those of the one before.
  const int64_t count = options_.range.count;
  std::vector<float>& state = next_.early ? next_.optimizer_state : optimizer_state_;
  for (int64_t slot = 0; next_.early && slot < SlotsOf(options_.rules); ++slot) {
    const int64_t at = slot * count + block.begin;
    std::copy_n(optimizer_state_.begin() + at, block.count, state.begin() + at);
  }
  OptimizerStep(next_.optimizer, version_ + 1, sum,
                state.empty() ? nullptr : state.data() + block.begin, count,
                parameters_->data() + block.begin, target, block.count);
}

std::shared_ptr<std::vector<float>> Shard::NewSum() {
  if (sum_ == nullptr || !IsSole(sum_)) {
    sum_ = std::make_shared<std::vector<float>>(static_cast<size_t>(options_.range.count));
  }
  return sum_;
}

// A late push has the weight that it would have had in its round.
OptimizerOptions Shard::OptimizerOf(size_t pushes, bool ends_round) const {
  OptimizerOptions optimizer = options_.rules.optimizer;
  const bool mean = optimizer.divisor == static_cast<float>(options_.world_size);
  if (mean) {
    optimizer.divisor =
        static_cast<float>(ends_round ? static_cast<int64_t>(pushes) : options_.rules.k);
  }
  return optimizer;
}

OptimizerOptions Shard::OptimizerFor(const ShardUpdate& update, bool ends_round) const {
  OptimizerOptions optimizer = OptimizerOf(update.ids.size(), ends_round);
  if (options_.rules.scale_by_staleness) {
    optimizer.learning_rate /= static_cast<float>(1 + update.staleness->update);
  }
  return optimizer;
}

// The next version, all of which is made out of the pushes that `update->ids` names, is the present
// one.
void Shard::Commit(bool ends_round, ShardUpdate* update) {
  if (KeepsThisVersion()) {
    if (kept_.parameters != nullptr) spare_ = kept_.parameters;
    kept_ = {.step = LeastStep(workers_), .version = version_, .parameters = parameters_};
  }
  parameters_ = std::move(next_.parameters);
  if (next_.early) optimizer_state_.swap(next_.optimizer_state);
  ForgetNext();
  update->version = ++version_;
  if (ends_round && !AppliesAlone(options_.rules.mode)) ++round_;
  for (const UpdateId& id : update->ids) {
    ShardWorker& worker = WorkerOf(id);
    worker.last_step = id.step;
    worker.rejected = false;
    worker.redoes = false;
    ResetStaging(&worker.staging);
    update->step = std::max(update->step, id.step);
  }
  ReleaseKept();
}

// SYNC: always. BOUNDED with staleness 0: when the first one leaves the step that all have
// finished.
bool Shard::KeepsThisVersion() const {
  if (!policy_->OneVersionPerStep()) return version_ == 0;
  const int64_t least_step = LeastStep(workers_);
  return std::all_of(workers_.begin(), workers_.end(), [least_step](const ShardWorker& worker) {
    return !worker.present || worker.last_step == least_step;
  });
}

// Where all read one version a step, the next step's takes its place.
void Shard::ReleaseKept() {
  if (!policy_->OneVersionPerStep() && LeastStep(workers_) > kept_.step) kept_.parameters.reset();
}

void Shard::Drop(int32_t r) {
  ShardWorker& worker = workers_[static_cast<size_t>(r)];
  ++worker.last_step;
  ++worker.dropped;
  worker.rejected = true;
  worker.redoes = false;  // here too: a copy is told of the drop, not of the push
  ResetStaging(&worker.staging);
  ReleaseKept();
}

absl::Status Shard::CheckNext(const UpdateId& push) const {
  RETURN_IF_ERROR(CheckWorker(push.worker));
  const ShardWorker& worker = workers_[static_cast<size_t>(push.worker)];
  if (!initialized() || push.shard != options_.shard || push.step != worker.last_step + 1 ||
      push.incarnation < worker.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        "copy of shard ", options_.shard, ": the primary names step ", push.step, " of worker ",
        push.worker, ", incarnation ", push.incarnation, ", shard ", push.shard, "; expected step ",
        worker.last_step + 1, ", incarnation ", worker.incarnation,
        initialized() ? "" : ", and start values, which are not here"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardUpdate> Shard::ApplySum(std::span<const UpdateId> pushes, int64_t round,
                                            const std::vector<float>& sum, int64_t now_ns) {
  if (pushes.empty() || static_cast<int64_t>(sum.size()) != options_.range.count) {
    return absl::FailedPreconditionError(
        absl::StrCat("copy of shard ", options_.shard, ": an update of ", pushes.size(),
                     " pushes and ", sum.size(), " elements, expected ", options_.range.count));
  }
  const bool ends_round = AppliesAlone(options_.rules.mode) || round == round_ + 1;
  if (!ends_round && (round != round_ || options_.rules.mode != PsMode::kKOfN)) {
    return absl::FailedPreconditionError(absl::StrCat("copy of shard ", options_.shard,
                                                      ": an update leads to round ", round,
                                                      ", this copy is in ", round_));
  }
  ShardUpdate update;
  for (const UpdateId& push : pushes) {
    RETURN_IF_ERROR(CheckNext(push));
    if (!update.ids.empty() && update.ids.back().worker >= push.worker) {
      return absl::FailedPreconditionError(
          absl::StrCat("copy of shard ", options_.shard, ": an update names worker ", push.worker,
                       " after worker ", update.ids.back().worker));
    }
    update.ids.push_back(push);
  }
  for (const UpdateId& push : pushes) WorkerOf(push).incarnation = push.incarnation;
  policy_->OnApply(now_ns, &update);
  BeginNext(OptimizerFor(update, ends_round), /*early=*/false);
  for (const SumBlock& block : blocks_) StepBlock(block, sum.data() + block.begin);
  Commit(ends_round, &update);
  return update;
}

absl::Status Shard::ApplyDrop(const UpdateId& push) {
  RETURN_IF_ERROR(CheckNext(push));
  if (options_.rules.mode != PsMode::kKOfN) {
    return absl::FailedPreconditionError(
        absl::StrCat("copy of shard ", options_.shard, ": worker ", push.worker,
                     "'s push is said to be dropped, which only K_OF_N does"));
  }
  WorkerOf(push).incarnation = push.incarnation;
  Drop(push.worker);
  return absl::OkStatus();
}

}  // namespace lockstep
