#include "allreduce/host/session.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/host/failure.h"
#include "base/status.h"

namespace lockstep {
namespace {

// How long to wait for the other ranks' reports: a tenth of sync_timeout_ms, within these bounds.
// Ranks that are in the call answer at once; whoever doesn't is missing.
constexpr int64_t kAnswerShare = 10;
constexpr int64_t kAnswerMsMin = 400;  // a busy machine may let a rank wait for its core as long

}  // namespace

HostSession::HostSession(std::unique_ptr<Link> link, const Clock& clock, const Limits& limits)
    : link_(std::move(link)),
      clock_(clock),
      limits_(limits),
      executor_(link_.get(), clock),
      window_(WindowAllReduce::Make(link_.get())) {}

// The executor's requests must not outlive it in the link.
HostSession::~HostSession() { link_.reset(); }

absl::Status HostSession::Run(const CallDescription& call, const std::vector<int>& members,
                              Execute execute) {
  if (!dead_.ok()) return dead_;
  const int64_t start_ns = clock_.NowNs();
  absl::Status status = CheckArguments(call, static_cast<int>(members.size()));
  if (status.ok()) status = execute(PlanOf(call, start_ns));
  if (!status.ok()) dead_ = Fail(call, members, start_ns, status);
  return dead_;
}

ExecuteCall HostSession::PlanOf(const CallDescription& call, int64_t start_ns) const {
  ExecuteCall plan;
  plan.count = call.count;
  plan.dtype = call.dtype;
  plan.op = call.op == ReduceOp::kAvg ? ReduceOp::kSum : call.op;  // the division comes last
  plan.tile_bytes = call.tile_bytes;
  plan.message_bytes_max = limits_.message_bytes_max;
  plan.fingerprint = FingerprintOf(call);
  plan.deadline_ns = start_ns + limits_.sync_timeout_ms * kNsPerMs;
  return plan;
}

int64_t HostSession::ElapsedMs(int64_t start_ns) const {
  return (clock_.NowNs() - start_ns) / kNsPerMs;
}

// Tells the others, hears what they have to say, and explains.
absl::Status HostSession::Fail(const CallDescription& call, const std::vector<int>& members,
                               int64_t start_ns, const absl::Status& cause) {
  const int rank = link_->rank();
  const int world_size = link_->world_size();
  FailureReport own{call, ElapsedMs(start_ns), WaitingFor(), {}, cause};
  own.answers = absl::IsAborted(cause) && link_->abort_status().ok();
  link_->Cancel();
  for (int peer = 0; peer < world_size; ++peer) {
    if (IsLost(peer)) own.lost.push_back(peer);
  }
  const std::string bytes = EncodeReport(own);
  link_->SendReport(std::as_bytes(std::span(bytes)));
  if (!link_->abort_status().ok()) {
    return Annotate(link_->abort_status(), absl::StrCat(ToString(call), ", rank ", rank));
  }
  const int64_t answer_ms = std::min(
      limits_.answer_grace_ms, std::max(limits_.sync_timeout_ms / kAnswerShare, kAnswerMsMin));
  const int64_t deadline_ns = clock_.NowNs() + answer_ms * kNsPerMs;
  while (SomeMayAnswer(members) && link_->AwaitReports(deadline_ns).ok()) {
  }
  FailureView view;
  view.rank = rank;
  view.elapsed_ms = ElapsedMs(start_ns);
  view.sync_timeout_ms = limits_.sync_timeout_ms;
  view.expected.resize(static_cast<size_t>(world_size), 0);
  for (const int member : members) view.expected[static_cast<size_t>(member)] = 1;
  for (int peer = 0; peer < world_size; ++peer) {
    const std::string& report = link_->peers()[static_cast<size_t>(peer)].report;
    view.reports.push_back(peer == rank ? own : DecodeReport(report, world_size));
    view.lost.push_back(IsLost(peer) ? 1 : 0);
  }
  return Explain(view);
}

// Only the one that ran the failed call waits for anybody.
std::vector<int> HostSession::WaitingFor() const {
  std::vector<int> ranks = executor_.WaitingFor();
  if (ranks.empty() && window_ != nullptr) ranks = window_->WaitingFor();
  return ranks;
}

bool HostSession::IsLost(int peer) const {
  const PeerState& state = link_->peers()[static_cast<size_t>(peer)];
  return state.lost && state.report.empty();
}

bool HostSession::SomeMayAnswer(const std::vector<int>& members) const {
  return std::any_of(members.begin(), members.end(), [&](int peer) {
    const PeerState& state = link_->peers()[static_cast<size_t>(peer)];
    return peer != link_->rank() && state.report.empty() && !state.lost && !state.left;
  });
}

}  // namespace lockstep
