#include "worker/sync/step_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kAbortPollMs = 20;  // a lock can't be polled together with the abort
constexpr int64_t kIdlePollMs = 1'000;

}  // namespace

StepExchange::StepExchange(Synchronizer* synchronizer, const StepExchangeOptions& options,
                           const Clock& clock, const Abort& abort)
    : synchronizer_(synchronizer),
      options_(options),
      clock_(clock),
      abort_(abort),
      traffic_(synchronizer->traffic()) {
  if (options_.overlap) thread_ = std::thread([this] { RunAll(); });
}

int64_t StepExchange::Stop() {
  {
    MutexLock lock(&mu_);
    leaving_ = true;
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mu_);
  return finished_step_;
}

absl::Status StepExchange::Ready(int64_t step, const Bucket& bucket, std::span<float> gradients) {
  const Call call = {.step = step, .bucket = bucket, .gradients = gradients};
  {
    MutexLock lock(&mu_);
    RETURN_IF_ERROR(failure_);
    Add(call);
    if (options_.overlap) return absl::OkStatus();
    running_ = true;
  }
  return Run(call);
}

absl::Status StepExchange::Finish(int64_t step, std::span<float> gradients,
                                  std::span<float> parameters) {
  bool queued = false;
  while (true) {
    Call call;
    {
      MutexLock lock(&mu_);
      RETURN_IF_ERROR(failure_);
      if (!queued) {
        Add({.step = step, .finish = true, .gradients = gradients, .parameters = parameters});
      }
      queued = true;
      RETURN_IF_ERROR(AwaitIdle(step));
      if (calls_.empty()) return failure_;
      // Run here: to wake the thread for it and to be woken again would cost two switches.
      running_ = true;
      call = calls_.front();
    }
    RETURN_IF_ERROR(Run(call));
  }
}

void StepExchange::Add(const Call& call) {
  CHECK_LE(calls_.size(), static_cast<size_t>(options_.buckets)) << "more calls than a step has";
  calls_.push_back(call);
}

// REQUIRES: `call` is the first of calls_, and running_ was set for it.
absl::Status StepExchange::Run(const Call& call) {
  absl::Status status;
  if (!call.finish && options_.arrived) status = options_.arrived(call.step, call.bucket);
  const int64_t start_ns = clock_.NowNs();
  if (status.ok()) {
    status = call.finish ? synchronizer_->Finish(call.step, call.gradients, call.parameters)
                         : synchronizer_->GradientReady(call.step, call.bucket, call.gradients);
  }
  const Traffic traffic = synchronizer_->traffic();
  const int64_t end_ns = clock_.NowNs();
  if (status.ok() && !call.finish && options_.exchanged) {
    options_.exchanged(call.step, call.bucket.index);
  }
  MutexLock lock(&mu_);
  spans_.push_back({call.finish ? kFinishSpan : call.bucket.index, start_ns, end_ns});
  traffic_ = traffic;
  failure_.Update(status);
  if (status.ok() && call.finish) finished_step_ = call.step;
  calls_.pop_front();
  running_ = false;
  return status;
}

void StepExchange::RunAll() {
  while (true) {
    Call call;
    {
      MutexLock lock(&mu_);
      const auto due = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return leaving_ || !failure_.ok() || (!calls_.empty() && !running_);
      };
      // Nothing else to look at: whatever stops the owner makes it destroy this object.
      while (!mu_.AwaitFor(due, kIdlePollMs)) {
      }
      if (leaving_ || !failure_.ok()) return;
      running_ = true;
      call = calls_.front();
    }
    Run(call).IgnoreError();  // it is in failure_
  }
}

// Waits for the call that the thread runs.
absl::Status StepExchange::AwaitIdle(int64_t step) {
  int64_t since_ns = clock_.NowNs();
  size_t left = calls_.size();
  const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !running_; };
  while (!mu_.AwaitFor(idle, kAbortPollMs)) {
    if (calls_.size() != left) {  // the thread was quicker to the next one
      since_ns = clock_.NowNs();
      left = calls_.size();
    }
    RETURN_IF_ERROR(
        Annotate(abort_.status(), absl::StrCat("step ", step, ", while waiting for ", Oldest())));
    const int64_t waited_ms = (clock_.NowNs() - since_ns) / kNsPerMs;
    if (waited_ms < options_.call_timeout_ms) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("step ", step, ": ", Oldest(), " was not through after ", waited_ms,
                     " ms, expected at most ", options_.call_timeout_ms,
                     " ms; if the link is slow, raise limits.sync_timeout_ms"));
  }
  return failure_;
}

std::string StepExchange::Oldest() const {
  const Call& call = calls_.front();
  if (call.finish) return "the step's completion (pull or optimizer)";
  return absl::StrCat("the exchange of bucket ", call.bucket.index, " of ", options_.buckets);
}

std::vector<CallSpan> StepExchange::TakeSpans() {
  MutexLock lock(&mu_);
  return std::exchange(spans_, {});
}

Traffic StepExchange::traffic() const {
  MutexLock lock(&mu_);
  return traffic_;
}

}  // namespace lockstep
