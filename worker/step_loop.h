// step_loop.h: what every rank does with its steps, whether it trains or only sums: links up, start
// values spread, then step by step gradients, exchange, record; a rank that trains is probed too.
// The way to stay in step is behind Synchronizer, the gradients behind GradientSource.
// Model, optimizer state, records and the number of steps made outlive a group: where one dies the
// loop leaves it and connects to the next, and goes on after the step that this one's way to
// synchronise begins with: a survivor's last one, or what the parameter servers have applied.
// SHRINK: the survivors share the same global batch and divide by their number, so batch and
// learning rate stay what they were.
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
#include "allreduce/transport/fault_link.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/member/fault_plan.h"
#include "base/member/member.h"
#include "base/member/record_writer.h"
#include "base/socket.h"
#include "proto/record.pb.h"
#include "worker/bucket/bucket.h"
#include "worker/computer.h"
#include "worker/model/model.h"
#include "worker/probe/probe.h"
#include "worker/step_record.h"
#include "worker/sync/factory.h"
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
  // From now on the gradients are those of `rank` among `world_size`.
  virtual absl::Status Share(int rank, int world_size) = 0;
  // For the optimizer on the worker: where the model computes.
  virtual OptimizerFactory optimizer_factory() { return MakeHostOptimizer; }
};

struct LoopContext {
  int index = 0;       // of the member: a worker's, or a summing server's
  bool trains = true;  // false: it only sums
  std::string token;
  Limits limits;
  const Clock* clock = nullptr;
  EnginePlace engine_place = {};
  ComputePlace compute_place = {};
  int64_t arrival_timeout_ms = 0;  // until a bucket's gradients are where the host sees them
  Started started = {};  // who this process is and what it reads; the loop adds what it exchanges
};

class StepLoop {
 public:
  // `context.clock` must outlive it.
  static absl::StatusOr<std::unique_ptr<StepLoop>> Create(const Start& start, LoopContext context,
                                                          std::unique_ptr<GradientSource> source);
  // Brings up the links of `start`'s group and takes the state that it begins with. `listener` was
  // bound before its endpoint was told; `abort`, the group's, must outlive the group.
  absl::Status Connect(const Start& start, Listener listener, const Abort& abort);
  // All steps left, or those before the one that this worker leaves at. `member` hears of each
  // finished one.
  absl::Status Run(Member* member);
  // Leaves a group that died for `cause`: nothing runs any more, links are closed, and the state is
  // that after step().
  void LeaveGroup(const absl::Status& cause);
  // The last finished step; kNoState: a replacement that has taken nobody's state yet.
  int64_t step() const { return step_; }
  // It is planned that this worker leaves before its next step: Run is over.
  bool leaves() const { return leaves_; }
  // The last record. Returns `status`, or why it could not be written.
  absl::Status RecordEnd(const absl::Status& status);

 private:
  // Of the step being made.
  struct Timing {
    int64_t sync_ns = 0;
    int64_t backward_end_ns = 0;
    int64_t ready_ns = 0;  // when the last bucket was handed over: nothing is computed after it
    size_t next_bucket = 0;
  };

  StepLoop(const Start& start, LoopContext context, std::unique_ptr<GradientSource> source,
           std::unique_ptr<RecordWriter> records);
  void RecordStarted(const Experiment& experiment);
  void RecordGroup(int64_t after);
  bool LeavesBefore(int64_t step);
  void TakeFirstState(int64_t after);
  void StrikeBefore(int64_t step);
  void StrikeAfter(int64_t step, int bucket);
  void RecordMessageFault(int fault);
  absl::Status OneStep(int64_t step);
  absl::Status OnTensor(int64_t step, int tensor, Timing* timing);
  absl::Status Arrived(int64_t step, const Bucket& bucket);
  absl::Status TakeProbe(int64_t step);
  Traffic TakeTraffic();

  const int64_t steps_;
  const LoopContext context_;
  const Clock& clock_;
  const std::unique_ptr<GradientSource> source_;
  const std::vector<Bucket> buckets_;
  std::unique_ptr<RecordWriter> records_;
  FaultPlan plan_;                          // of this worker
  std::vector<PlannedFault> nan_faults_;    // of the step being made
  std::vector<PlannedFault> due_messages_;  // likewise
  ArmedFaults message_faults_;
  Probe probe_;
  const TracedSteps traced_;
  MessageLog messages_;
  std::unique_ptr<Synchronizer> synchronizer_;
  std::unique_ptr<StepExchange> exchange_;  // uses all of the above
  HeldState held_;                          // from the group before
  Start start_;                             // of the group
  Traffic counted_;                         // of the group's
  Traffic left_over_;                       // of groups that were left, not recorded yet
  int64_t broken_ns_ = 0;                   // when the group before died
  std::string cause_;                       // why
  bool leaves_ = false;
  int64_t step_ = 0;
};

}  // namespace lockstep
