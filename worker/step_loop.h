// step_loop.h: what every rank does with its steps, whether it trains or only sums: links up, start
// values spread, then step by step gradients, exchange, record; a rank that trains is probed too.
// The way to stay in step is behind Synchronizer, the gradients behind GradientSource.
// Errors: DataLoss (a gradient that is not finite), the synchronizer's, the record file's.
// Threads: calls come from one thread; with overlap the exchange has one of its own
// (sync/step_exchange.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "allreduce/host/message_log.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/member/member.h"
#include "base/member/record_writer.h"
#include "base/socket.h"
#include "proto/record.pb.h"
#include "worker/bucket/bucket.h"
#include "worker/model/model.h"
#include "worker/probe/probe.h"
#include "worker/step_record.h"
#include "worker/sync/step_exchange.h"
#include "worker/sync/synchronizer.h"

namespace lockstep {

// Where a step's gradients come from.
class GradientSource {
 public:
  virtual ~GradientSource() = default;
  // The arenas. A rank that only sums uses them as workspace.
  virtual Model& model() = 0;
  struct Result {
    double loss = 0;
    int samples = 0;
  };
  // Fills model().gradients() and calls `ready` as Model::ForwardBackward does.
  virtual absl::StatusOr<Result> Compute(int64_t step, const TensorReady& ready) = 0;
};

struct LoopContext {
  int index = 0;       // of the member: a worker's rank, or a summing server's number
  bool trains = true;  // false: it only sums
  std::string token;
  Listener listener;  // bound before this member joined
  Limits limits;
  const Clock* clock = nullptr;
  const Abort* abort = nullptr;
  Started started = {};  // who this process is and what it reads; the loop adds what it exchanges
};

class StepLoop {
 public:
  // Brings up the links and spreads rank 0's start values.
  static absl::StatusOr<std::unique_ptr<StepLoop>> Create(const Start& start, LoopContext context,
                                                          std::unique_ptr<GradientSource> source);
  // All steps. `member` hears of each finished one.
  absl::Status Run(Member* member);
  // The last finished step.
  int64_t step() const { return step_; }
  // The last record. Returns `status`, or why it could not be written.
  absl::Status RecordEnd(const absl::Status& status);

 private:
  // Of the step being made.
  struct Timing {
    int64_t sync_ns = 0;
    int64_t backward_end_ns = 0;
    size_t next_bucket = 0;
  };

  StepLoop(const Start& start, const LoopContext& context, std::unique_ptr<GradientSource> source,
           std::unique_ptr<RecordWriter> records);
  absl::Status Begin(const Start& start, LoopContext context);
  absl::Status OneStep(int64_t step);
  absl::Status OnTensor(int64_t step, int tensor, Timing* timing);
  absl::Status CheckBucket(int64_t step, const Bucket& bucket);
  void TakeProbe(int64_t step);
  Traffic TakeTraffic();

  const int64_t steps_;
  const int index_;
  const bool trains_;
  const Clock& clock_;
  const std::unique_ptr<GradientSource> source_;
  const std::vector<Bucket> buckets_;
  const std::vector<int64_t> nan_steps_;  // planned faults of this worker
  std::unique_ptr<RecordWriter> records_;
  Probe probe_;
  const TracedSteps traced_;
  MessageLog messages_;
  std::unique_ptr<Synchronizer> synchronizer_;
  std::unique_ptr<StepExchange> exchange_;  // uses all of the above
  Traffic counted_;
  int64_t step_ = 0;
};

}  // namespace lockstep
