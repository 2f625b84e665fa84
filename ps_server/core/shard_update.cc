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
  std::vector<Staging*> pushes;
  for (const int32_t r : due) {
    ShardWorker& worker = workers_[static_cast<size_t>(r)];
    pushes.push_back(&worker.staging);
    update.ids.push_back({r, worker.incarnation, worker.last_step + 1, options_.shard});
    update.pushes.push_back({r, worker.push_start_ns, worker.push_end_ns});
    update.wait_ns = std::max(update.wait_ns, now_ns - worker.push_start_ns);
    if (worker.late) update.late.push_back(r);
  }
  const bool ends_round = update.late.size() < due.size();
  std::vector<float*> values;  // EXACT
  if (options_.rules.order == PsOrder::kExact) {
    for (Staging* const push : pushes) values.push_back(push->Values().data());
    update.non_finite = SumExactly(options_.range.parts, DivisorOf(due.size(), ends_round), values);
  }
  const std::vector<const Staging*> sources(pushes.begin(), pushes.end());
  std::vector<float>* const whole = NewSum(output);
  std::array<float, kSumElements> own;  // written before it is read
  const auto sum = [&](int64_t begin, int64_t count) -> const float* {
    float* const block = whole == nullptr ? own.data() : whole->data() + begin;
    if (values.empty()) {
      SumInRankOrder(sources, begin, count, block);
    } else {
      std::copy_n(values.front() + begin, count, block);
    }
    return block;
  };
  Commit(sum, ends_round, now_ns, &update);
  return update;
}

// Null: nobody wants one.
std::vector<float>* Shard::NewSum(ShardOutput* output) {
  if (!sums_) return nullptr;
  if (sum_ == nullptr || !IsSole(sum_)) {
    sum_ = std::make_shared<std::vector<float>>(static_cast<size_t>(options_.range.count));
  }
  output->sum = sum_;
  return sum_.get();
}

// A late push has the weight that it would have had in its round.
float Shard::DivisorOf(size_t pushes, bool ends_round) const {
  const float divisor = options_.rules.optimizer.divisor;
  const bool mean = divisor == static_cast<float>(options_.world_size);
  if (!mean) return divisor;
  return static_cast<float>(ends_round ? static_cast<int64_t>(pushes) : options_.rules.k);
}

// Makes the update that `update->ids` are the pushes of.
void Shard::Commit(SumBlocks sum, bool ends_round, int64_t now_ns, ShardUpdate* update) {
  policy_->OnApply(now_ns, update);
  OptimizerOptions optimizer = options_.rules.optimizer;
  const bool divided = options_.rules.order == PsOrder::kExact;
  optimizer.divisor = divided ? 1.0F : DivisorOf(update->ids.size(), ends_round);
  if (options_.rules.scale_by_staleness) {
    optimizer.learning_rate /= static_cast<float>(1 + update->staleness->update);
  }
  Step(optimizer, sum);
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

// Whoever holds the present parameters, or is behind, keeps them: then the new ones go elsewhere.
void Shard::Step(const OptimizerOptions& optimizer, SumBlocks sum) {
  const int64_t count = options_.range.count;
  const bool keep = KeepsThisVersion();
  std::shared_ptr<std::vector<float>> updated = parameters_;
  if (keep) {
    updated = std::exchange(kept_.parameters, parameters_);
    kept_.step = LeastStep(workers_);
    kept_.version = version_;
  }
  if (updated == nullptr || !IsSole(updated, keep ? 1 : 2)) {
    updated = std::make_shared<std::vector<float>>(static_cast<size_t>(count));
  }
  for (int64_t begin = 0; begin < count; begin += kSumElements) {
    const int64_t here = std::min(kSumElements, count - begin);
    const float* const gradient = sum(begin, here);
    float* const target = updated->data() + begin;
    if (options_.rules.sum_only) {
      std::copy_n(gradient, here, target);
      Divide(target, optimizer.divisor, here);
    } else {
      // The values of a slot stand count elements after those of the one before.
      float* const state = optimizer_state_.empty() ? nullptr : optimizer_state_.data() + begin;
      OptimizerStep(optimizer, version_ + 1, gradient, state, count, parameters_->data() + begin,
                    target, here);
    }
  }
  parameters_ = std::move(updated);
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
  Commit([&sum](int64_t begin, int64_t /*count*/) { return sum.data() + begin; }, ends_round,
         now_ns, &update);
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
