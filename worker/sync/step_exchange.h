// step_exchange.h: runs a step's calls on a Synchronizer, beside the backward pass or within it.
// With overlap one thread takes the buckets in the order in which they come, so that the exchange
// of a bucket hides behind the gradients still being computed; Finish runs in its caller what that
// thread has not begun. Without overlap the same calls happen where they are asked for. One call at
// a time, in the same order with the same arguments: so the bits are the same.
// The queue holds at most one step: its buckets and its Finish. Errors: a call's own, out of the
// next Ready or of Finish; after one, nothing is called any more. Finish looks at the abort, and
// waits no longer for one call than `call_timeout_ms` (DeadlineExceeded, names step and call).
// Threads: calls come from one thread. Between Finish and the next Ready the synchronizer is idle
// and may be used directly. Paper: Li et al., PyTorch Distributed, VLDB 13(12), 2020.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/sync.h"
#include "base/traffic.h"
#include "worker/bucket/bucket.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

inline constexpr int kFinishSpan = -1;  // in place of a bucket's index

// When a call ran. Times on the exchange's clock, in ns.
struct CallSpan {
  int bucket = 0;  // or kFinishSpan
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct StepExchangeOptions {
  bool overlap = true;
  int buckets = 0;              // of a step
  int64_t call_timeout_ms = 0;  // more than any one call may take by itself
  // Both in the thread that exchanges the bucket, and may be empty: before the exchange, which
  // begins only if this went well, and once it is through.
  std::function<absl::Status(int64_t step, const Bucket& bucket)> arrived = nullptr;
  std::function<void(int64_t step, int bucket)> exchanged = nullptr;
};

class StepExchange {
 public:
  // All three must outlive this object.
  StepExchange(Synchronizer* synchronizer, const StepExchangeOptions& options, const Clock& clock,
               const Abort& abort);
  ~StepExchange() { Stop(); }
  StepExchange(const StepExchange&) = delete;
  StepExchange& operator=(const StepExchange&) = delete;

  // As Synchronizer::GradientReady. `gradients` of this bucket must stay until Finish.
  absl::Status Ready(int64_t step, const Bucket& bucket, std::span<float> gradients);
  // As Synchronizer::Finish; returns when every call of the step is through.
  absl::Status Finish(int64_t step, std::span<float> gradients, std::span<float> parameters);

  // For good: waits for the call under way, which its own deadline or the abort ends. Returns the
  // last step whose Finish went through, and so is in the parameters; 0: none.
  int64_t Stop();

  // Of the step that Finish has ended, in the order in which its calls ran.
  std::vector<CallSpan> TakeSpans();
  // Of the synchronizer, as of the last call that is through: valid while another one runs.
  Traffic traffic() const;

 private:
  struct Call {
    int64_t step = 0;
    bool finish = false;
    Bucket bucket = {};
    std::span<float> gradients = {};
    std::span<float> parameters = {};
  };

  void Add(const Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Run(const Call& call);
  void RunAll();
  absl::Status AwaitIdle(int64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string Oldest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Synchronizer* const synchronizer_;
  const StepExchangeOptions options_;
  const Clock& clock_;
  const Abort& abort_;

  mutable Mutex mu_;
  std::deque<Call> calls_ ABSL_GUARDED_BY(mu_);  // not through yet
  bool running_ ABSL_GUARDED_BY(mu_) = false;    // the first of them is under way
  absl::Status failure_ ABSL_GUARDED_BY(mu_);    // the first one, for good
  std::vector<CallSpan> spans_ ABSL_GUARDED_BY(mu_);
  Traffic traffic_ ABSL_GUARDED_BY(mu_);
  int64_t finished_step_ ABSL_GUARDED_BY(mu_) = 0;
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // with overlap only
};

}  // namespace lockstep
