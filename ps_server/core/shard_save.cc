// The part of Shard that becomes a ShardState, and comes from one.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "ps_server/core/shard.h"

namespace lockstep {
namespace {

absl::Status CheckBelongs(const ShardOptions& options, const ShardState& state) {
  if (state.shard == options.shard && state.offset == options.range.offset &&
      state.layout == options.layout &&
      static_cast<int64_t>(state.workers.size()) == options.world_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "shard ", options.shard, " at element ", options.range.offset, " of ", options.world_size,
      " workers, layout ", options.layout, ": the state is of shard ", state.shard, " at element ",
      state.offset, " of ", state.workers.size(), " workers, layout ", state.layout));
}

absl::Status CheckParts(const ShardOptions& options, const ShardState& state) {
  const auto count = static_cast<size_t>(options.range.count);
  const auto slots = static_cast<size_t>(SlotsOf(options.rules));
  const size_t marks = AppliesAlone(options.rules.mode) ? state.workers.size() : 0;
  const size_t parameters = state.parameters == nullptr ? 0 : state.parameters->size();
  const size_t previous = state.previous == nullptr ? count : state.previous->size();
  if (parameters == count && previous == count && state.optimizer_state.size() == slots * count &&
      state.staleness.size() == marks && state.version >= 0 && state.round >= 0 &&
      state.round <= state.version) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("shard ", options.shard, " of ", count, " elements, ", slots,
                   " optimizer values each: the state of version ", state.version, ", round ",
                   state.round, " has ", parameters, " parameters, ", previous, " previous ones, ",
                   state.optimizer_state.size(), " optimizer values and ", state.staleness.size(),
                   " staleness marks, expected ", marks));
}

}  // namespace

std::vector<WorkerMark> Shard::worker_marks() const {
  std::vector<WorkerMark> marks;
  marks.reserve(workers_.size());
  for (const ShardWorker& worker : workers_) {
    marks.push_back({.incarnation = worker.incarnation,
                     .last_step = worker.last_step,
                     .dropped = worker.dropped,
                     .rejected = worker.rejected});
  }
  return marks;
}

ShardState Shard::Save() const {
  CHECK(initialized()) << "shard " << options_.shard << " has nothing to save";
  return {.shard = options_.shard,
          .offset = options_.range.offset,
          .layout = options_.layout,
          .version = version_,
          .parameters = parameters_,
          .round = round_,
          .previous = kept_.parameters,
          .previous_version = kept_.parameters == nullptr ? 0 : kept_.version,
          .previous_step = kept_.parameters == nullptr ? 0 : kept_.step,
          .optimizer_state = optimizer_state_,
          .workers = worker_marks(),
          .staleness = staleness_marks()};
}

absl::StatusOr<Shard> Shard::Restore(const ShardOptions& options, const ShardState& state) {
  ASSIGN_OR_RETURN(Shard shard, Create(options));
  RETURN_IF_ERROR(CheckBelongs(options, state));
  RETURN_IF_ERROR(CheckParts(options, state));
  shard.version_ = state.version;
  shard.round_ = state.round;
  shard.parameters_ = std::make_shared<std::vector<float>>(*state.parameters);
  shard.optimizer_state_ = state.optimizer_state;
  for (size_t r = 0; r < state.workers.size(); ++r) {
    const WorkerMark& mark = state.workers[r];
    ShardWorker& worker = shard.workers_[r];
    worker.incarnation = mark.incarnation;
    worker.last_step = mark.last_step;
    worker.dropped = mark.dropped;
    worker.rejected = mark.rejected;
  }
  shard.policy_->Restore(state.staleness);
  if (state.previous != nullptr) {
    shard.kept_ = {.step = state.previous_step,
                   .version = state.previous_version,
                   .parameters = std::make_shared<std::vector<float>>(*state.previous)};
  }
  return shard;
}

}  // namespace lockstep
