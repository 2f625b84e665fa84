#include "allreduce/communicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/host/call.h"
#include "allreduce/host/executor.h"
#include "allreduce/host/failure.h"
#include "allreduce/host/measure.h"
#include "allreduce/schedule/broadcast.h"
#include "allreduce/schedule/generate.h"
#include "allreduce/schedule/order.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int32_t kBroadcastChunks = 4;  // enough to keep a short chain busy; tiles do the rest
// How long to wait for the other ranks' reports: a tenth of sync_timeout_ms, within these bounds.
// Ranks that are in the call answer at once; whoever doesn't is missing.
constexpr int64_t kAnswerShare = 10;
constexpr int64_t kAnswerMsMin = 50;
constexpr int64_t kLargePingBytes = int64_t{256} << 10;  // beyond a socket's first window

RankPart PartOf(const ScheduleSpec& spec, int rank) {
  absl::StatusOr<RankPart> part = MakeRankPart(spec, rank);
  CHECK(part.ok()) << part.status();  // options of a group are checked before it is built
  return *std::move(part);
}

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::unique_ptr<Link> link, const Clock& clock,
                   const CommunicatorOptions& options)
      : link_(std::move(link)),
        clock_(clock),
        options_(options),
        executor_(link_.get(), clock),
        spec_{options.algorithm, link_->world_size(), options.servers, options.channels},
        part_(PartOf(spec_, link_->rank())),
        closing_ring_(PartOf({.world_size = link_->world_size()}, link_->rank())) {
    CHECK(options.channels <= link_->channels())
        << options.channels << " channels asked, the link has " << link_->channels();
  }
  // The executor's requests must not outlive it in the link.
  ~HostCommunicator() override { link_.reset(); }

  int rank() const override { return link_->rank(); }
  int world_size() const override { return link_->world_size(); }
  int contributors() const override { return part_.contributors; }
  std::string AdditionOrder(int64_t count) const override {
    const absl::StatusOr<Schedule> schedule = MakeSchedule(spec_);
    CHECK(schedule.ok()) << schedule.status();  // its own part was made from the same spec
    return lockstep::AdditionOrder(*schedule, count);
  }
  void LogMessages(MessageLog* log) override { executor_.LogMessages(log); }
  Traffic traffic() const override { return link_->traffic(); }

  absl::Status AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) override {
    CallDescription call = Describe(Operation::kAllReduce, count, dtype);
    call.op = op;
    return Run(call, [&](ExecuteCall execute) {
      execute.data = data;
      return executor_.Run(part_, execute);
    });
  }

  absl::Status Broadcast(void* data, int64_t count, Dtype dtype, int root) override {
    CallDescription call = Describe(Operation::kBroadcast, count, dtype);
    call.root = root;
    return Run(call, [&](ExecuteCall execute) -> absl::Status {
      if (root < 0 || root >= world_size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("root ", root, " is no rank of 0..", world_size() - 1));
      }
      const BroadcastSpec spec{world_size(), root, kBroadcastChunks};
      ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(spec));
      const RankPart chain{shape, BroadcastLanes(spec, rank())};
      execute.data = data;
      RETURN_IF_ERROR(executor_.Run(chain, execute));
      // Root would be through before the last rank has even called. A ring of empty messages ends
      // the call on no rank before every rank is in it.
      execute.count = 0;
      return executor_.Run(closing_ring_, execute);
    });
  }

  absl::StatusOr<std::optional<LinkCost>> MeasureLink() override {
    const int64_t large_bytes = std::min(kLargePingBytes, options_.limits.chunk_bytes);
    const CallDescription call = Describe(Operation::kPingPong, large_bytes, Dtype::kU8);
    std::optional<LinkCost> cost;
    RETURN_IF_ERROR(Run(call, [&](const ExecuteCall& execute) -> absl::Status {
      if (world_size() == 1 || !TakesPart(call, rank())) return absl::OkStatus();
      ASSIGN_OR_RETURN(cost, MeasureLinkCost(*link_, clock_, execute, &executor_));
      return absl::OkStatus();
    }));
    if (rank() != 0) cost.reset();
    return cost;
  }

 private:
  CallDescription Describe(Operation operation, int64_t count, Dtype dtype) const {
    CallDescription call;
    call.count = count;
    call.tile_bytes = options_.limits.chunk_bytes;
    call.channels = options_.channels;
    call.operation = operation;
    call.dtype = dtype;
    call.algorithm = options_.algorithm;
    call.servers = options_.servers;
    return call;
  }

  template <typename Execute>
  absl::Status Run(CallDescription call, const Execute& execute) {
    if (!dead_.ok()) return dead_;
    call.sequence = next_sequence_++;
    const int64_t start_ns = clock_.NowNs();
    const absl::Status status = Check(call, start_ns, execute);
    if (!status.ok()) dead_ = Fail(call, start_ns, status);
    return dead_;
  }

  template <typename Execute>
  absl::Status Check(const CallDescription& call, int64_t start_ns, const Execute& execute) {
    if (call.count < 0) {
      return absl::InvalidArgumentError(absl::StrCat("count ", call.count, " is negative"));
    }
    ExecuteCall plan;
    plan.count = call.count;
    plan.dtype = call.dtype;
    plan.op = call.op;
    plan.tile_bytes = call.tile_bytes;
    plan.message_bytes_max = options_.limits.message_bytes_max;
    plan.fingerprint = FingerprintOf(call);
    plan.deadline_ns = start_ns + options_.limits.sync_timeout_ms * kNsPerMs;
    return execute(plan);
  }

  int64_t ElapsedMs(int64_t start_ns) const { return (clock_.NowNs() - start_ns) / kNsPerMs; }

  // Tells the others, hears what they have to say, and explains.
  absl::Status Fail(const CallDescription& call, int64_t start_ns, const absl::Status& cause) {
    FailureReport own{call, ElapsedMs(start_ns), executor_.WaitingFor(), {}, cause};
    own.answers = absl::IsAborted(cause) && link_->abort_status().ok();
    link_->Cancel();
    for (int peer = 0; peer < world_size(); ++peer) {
      if (IsLost(peer)) own.lost.push_back(peer);
    }
    const std::string bytes = EncodeReport(own);
    link_->SendReport(std::as_bytes(std::span(bytes)));
    if (!link_->abort_status().ok()) {
      return Annotate(link_->abort_status(), absl::StrCat(ToString(call), ", rank ", rank()));
    }
    const int64_t answer_ms =
        std::min(options_.limits.answer_grace_ms,
                 std::max(options_.limits.sync_timeout_ms / kAnswerShare, kAnswerMsMin));
    const int64_t deadline_ns = clock_.NowNs() + answer_ms * kNsPerMs;
    while (SomeMayAnswer(call) && link_->AwaitReports(deadline_ns).ok()) {
    }
    FailureView view;
    view.rank = rank();
    view.elapsed_ms = ElapsedMs(start_ns);
    view.sync_timeout_ms = options_.limits.sync_timeout_ms;
    for (int peer = 0; peer < world_size(); ++peer) {
      const std::string& report = link_->peers()[static_cast<size_t>(peer)].report;
      view.reports.push_back(peer == rank() ? own : DecodeReport(report, world_size()));
      view.lost.push_back(IsLost(peer) ? 1 : 0);
    }
    return Explain(view);
  }

  bool IsLost(int peer) const {
    const PeerState& state = link_->peers()[static_cast<size_t>(peer)];
    return state.lost && state.report.empty();
  }

  bool SomeMayAnswer(const CallDescription& call) const {
    for (int peer = 0; peer < world_size(); ++peer) {
      const PeerState& state = link_->peers()[static_cast<size_t>(peer)];
      const bool wanted = peer != rank() && TakesPart(call, peer);
      if (wanted && state.report.empty() && !state.lost && !state.left) return true;
    }
    return false;
  }

  std::unique_ptr<Link> link_;
  const Clock& clock_;
  const CommunicatorOptions options_;
  HostExecutor executor_;
  const ScheduleSpec spec_;
  const RankPart part_;          // of every AllReduce
  const RankPart closing_ring_;  // ends a broadcast
  int64_t next_sequence_ = 0;
  absl::Status dead_;  // the first error, for good
};

}  // namespace

std::unique_ptr<Communicator> MakeHostCommunicator(std::unique_ptr<Link> link, const Clock& clock,
                                                   const CommunicatorOptions& options) {
  return std::make_unique<HostCommunicator>(std::move(link), clock, options);
}

}  // namespace lockstep
