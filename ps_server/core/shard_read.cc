// The part of Shard that answers pulls, and gives up those that have waited too long.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "ps_server/core/shard.h"

namespace lockstep {

absl::Status Shard::On(const PullEvent& event, int64_t now_ns, ShardOutput* output) {
  RETURN_IF_ERROR(CheckSender(event.id));
  ShardWorker& worker = WorkerOf(event.id);
  if (event.id.step < 0 || event.id.step > worker.last_step + 1) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", options_.shard, ": worker ",
                                                   event.id.worker, " pulls step ", event.id.step,
                                                   ", its last applied one is ", worker.last_step));
  }
  const bool goes_back = event.id.step < worker.last_step;
  if (options_.rules.mode == PsMode::kKOfN && goes_back && !worker.redoes) {
    worker.redoes = true;  // a round may have waited for this worker alone
    const std::vector<int32_t> due = policy_->Due(workers_);
    if (!due.empty()) output->update = Apply(due, now_ns, output);
  }
  // A pull that is asked again replaces the first: one reply is owed to a worker at any time.
  worker.pull = ShardWorker::Pull{event.id.step, now_ns, {}};
  if (options_.rules.mode == PsMode::kSync && event.id.step < version_ && !ReadsKept(worker)) {
    worker.pull.reset();
    return absl::FailedPreconditionError(
        absl::StrCat("shard ", options_.shard, ": worker ", event.id.worker, " pulls step ",
                     event.id.step, ", whose parameters are gone; the shard is at ", version_));
  }
  return absl::OkStatus();
}

void Shard::Reply(int64_t now_ns, ShardOutput* output) {
  if (!initialized()) return;
  const int64_t least_step = LeastStep(workers_);
  for (size_t r = 0; r < workers_.size(); ++r) {
    ShardWorker& worker = workers_[r];
    if (!worker.pull.has_value() || worker.pull->step > worker.last_step) continue;
    if (!policy_->MayRead(worker.pull->step, least_step)) {
      if (!worker.pull->blocked_ns.has_value()) worker.pull->blocked_ns = now_ns;
      continue;
    }
    const bool kept = ReadsKept(worker);
    const ShardReply reply = {.worker = static_cast<int32_t>(r),
                              .step = worker.pull->step,
                              .version = kept ? kept_.version : version_,
                              .parameters = kept ? kept_.parameters : parameters_,
                              .rejected = worker.rejected && worker.pull->step == worker.last_step,
                              // Of kept ones only SYNC's and the start values have one.
                              .round = kept ? std::min(round_, kept_.version) : round_,
                              .least_step = kept ? kept_.step : least_step,
                              .blocked_ns = now_ns - worker.pull->blocked_ns.value_or(now_ns)};
    policy_->OnRead(reply.worker, reply.version, reply.least_step, now_ns);
    output->replies.push_back(reply);
    worker.pull.reset();
  }
}

// Where all read one version a step, that also holds for who makes a step again.
bool Shard::ReadsKept(const ShardWorker& worker) const {
  return kept_.parameters != nullptr && worker.pull->step == kept_.step &&
         (policy_->OneVersionPerStep() || worker.last_step == kept_.step);
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
  const ShardWorker::Pull& pull = *workers_[static_cast<size_t>(worker)].pull;
  const std::vector<int32_t> awaited =
      initialized() ? policy_->AwaitedBy(worker, workers_) : std::vector<int32_t>{0};
  const std::string missing =
      initialized() ? Missing(awaited, pull.step)
                    : absl::StrCat("the start values of worker 0: ", start_values_.staged(), " of ",
                                   options_.range.count, " elements are here");
  std::vector<std::string> blamed;
  blamed.reserve(awaited.size());
  for (const int32_t r : awaited) blamed.push_back(absl::StrCat("worker ", r));
  return Blame(
      absl::DeadlineExceededError(absl::StrCat(
          "shard ", options_.shard, " waited ", (now_ns - pull.since_ns) / kNsPerMs, " ms for ",
          missing, " (limits.sync_timeout_ms ", options_.sync_timeout_ms, ")")),
      blamed);
}

// Of each awaited worker, what is here of its next push; its step only where that is not `step`.
std::string Shard::Missing(const std::vector<int32_t>& awaited, int64_t step) const {
  std::string missing = absl::StrCat("the push of step ", step, " of ");
  for (size_t i = 0; i < awaited.size(); ++i) {
    const ShardWorker& worker = workers_[static_cast<size_t>(awaited[i])];
    absl::StrAppend(&missing, i == 0 ? "" : ", ", "worker ", awaited[i], " (");
    if (worker.last_step + 1 != step) {
      absl::StrAppend(&missing, "at step ", worker.last_step + 1, ": ");
    }
    if (worker.incarnation < 0) {
      absl::StrAppend(&missing, "not connected)");
    } else {
      absl::StrAppend(&missing, worker.staging.staged(), " of ", options_.range.count,
                      " elements are here)");
    }
  }
  return missing;
}

}  // namespace lockstep
