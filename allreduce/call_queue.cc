#include "allreduce/call_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep {
namespace {

constexpr int64_t kLookMs = 1'000;  // a wait that nothing ends looks again

}  // namespace

void AsyncCall::Finish(const absl::Status& status) {
  run = nullptr;  // frees what it holds before anybody is told
  MutexLock lock(&mu_);
  status_ = status;
  done_ = true;
}

absl::Status AsyncCall::Wait(int64_t timeout_ms) {
  MutexLock lock(&mu_);
  if (mu_.AwaitFor([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return done_; }, timeout_ms)) {
    return status_;
  }
  return absl::DeadlineExceededError(
      absl::StrCat("the call is not through after ", timeout_ms, " ms; it goes on"));
}

bool AsyncCall::done() {
  MutexLock lock(&mu_);
  return done_;
}

CallQueue::CallQueue(size_t calls_max) : calls_max_(calls_max), thread_([this] { Loop(); }) {}

CallQueue::~CallQueue() {
  {
    MutexLock lock(&mu_);
    CHECK(waiting_.empty()) << "an owner was not forgotten";
    stopping_ = true;
  }
  thread_.join();
}

std::shared_ptr<AsyncCall> CallQueue::Add(const void* owner, std::function<absl::Status()> run,
                                          int64_t timeout_ms) {
  auto call = std::make_shared<AsyncCall>(owner, std::move(run));
  {
    MutexLock lock(&mu_);
    const auto has_room = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return waiting_.size() < calls_max_;
    };
    if (mu_.AwaitFor(has_room, timeout_ms)) {
      waiting_.push_back(call);
      return call;
    }
  }
  call->Finish(absl::ResourceExhaustedError(
      absl::StrCat(calls_max_, " calls wait already and none ended within ", timeout_ms,
                   " ms; wait for handles before calling again")));
  return call;
}

void CallQueue::Forget(const void* owner, const absl::Status& reason, std::function<void()> last) {
  const auto end = std::make_shared<AsyncCall>(owner, [run = std::move(last)] {
    run();
    return absl::OkStatus();
  });
  std::vector<std::shared_ptr<AsyncCall>> forgotten;
  {
    MutexLock lock(&mu_);
    const auto first = std::stable_partition(
        waiting_.begin(), waiting_.end(), [&](const auto& call) { return call->owner != owner; });
    std::move(first, waiting_.end(), std::back_inserter(forgotten));
    waiting_.erase(first, waiting_.end());
    waiting_.push_front(end);
  }
  for (const auto& call : forgotten) call->Finish(reason);
  while (!end->Wait(kLookMs).ok()) {
  }
}

void CallQueue::Loop() {
  const auto has_news = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stopping_ || !waiting_.empty();
  };
  while (true) {
    std::shared_ptr<AsyncCall> call;
    {
      MutexLock lock(&mu_);
      if (!mu_.AwaitFor(has_news, kLookMs)) continue;
      if (stopping_) return;
      call = std::move(waiting_.front());
      waiting_.pop_front();
    }
    call->Finish(call->run());
  }
}

}  // namespace lockstep
