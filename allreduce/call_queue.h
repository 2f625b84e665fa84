// call_queue.h: a thread that runs calls one after the other, in the order they were added, and a
// bounded queue in front of it. Several owners may share one; each takes its calls with it when it
// goes, and what they used goes in the thread that used it. Internal to async.h. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "base/sync.h"

namespace lockstep {

// A call and its result, shared by the queue and whoever waits.
struct AsyncCall {
 public:
  AsyncCall(const void* call_owner, std::function<absl::Status()> call_run)
      : owner(call_owner), run(std::move(call_run)) {}

  void Finish(const absl::Status& status);
  absl::Status Wait(int64_t timeout_ms);
  bool done();

  const void* const owner;
  std::function<absl::Status()> run;  // the queue's thread alone, until Finish

 private:
  Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

class CallQueue {
 public:
  // `calls_max`: how many may wait, the one that runs aside.
  explicit CallQueue(size_t calls_max);
  // REQUIRES: every owner was forgotten. Ends the thread.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // Waits for room; the call has failed with ResourceExhausted if there is none in time.
  std::shared_ptr<AsyncCall> Add(const void* owner, std::function<absl::Status()> run,
                                 int64_t timeout_ms);
  // The owner's calls that have not begun end with `reason`, then `last` is run as the next call,
  // room or not. Returns when it is through: the call that runs has a deadline of its own.
  void Forget(const void* owner, const absl::Status& reason, std::function<void()> last);

 private:
  void Loop();

  const size_t calls_max_;
  Mutex mu_;
  std::deque<std::shared_ptr<AsyncCall>> waiting_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace lockstep
