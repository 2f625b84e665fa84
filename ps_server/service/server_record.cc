#include "ps_server/service/server_record.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/cpu_time.h"
#include "base/member/group_state.h"
#include "base/member/process.h"
#include "base/status.h"

namespace lockstep {
namespace {

PeerSpan SpanOf(const WorkerSpan& span) {
  PeerSpan peer;
  peer.set_worker(span.worker);
  peer.set_start_ns(span.start_ns);
  peer.set_end_ns(span.end_ns);
  return peer;
}

void Put(const Staleness& staleness, Applied* applied) {
  applied->set_update_staleness(staleness.update);
  applied->set_clock_staleness(staleness.clock);
  if (staleness.gap_ns.has_value()) applied->set_gap_ns(*staleness.gap_ns);
  if (staleness.cycle_ns.has_value()) applied->set_cycle_ns(*staleness.cycle_ns);
}

Applied AppliedFrom(const UpdateServed& served) {
  const ShardUpdate& update = served.update;
  Applied applied;
  applied.set_step(update.step);
  applied.set_shard(served.shard);
  applied.set_version(update.version);
  applied.set_wait_ns(update.wait_ns);
  applied.set_apply_start_ns(served.apply_start_ns);
  applied.set_apply_ns(served.apply_ns);
  applied.set_early_ns(served.early_ns);
  *applied.mutable_traffic() = CountOf(served.traffic);
  *applied.mutable_replication() = CountOf(served.replication);
  applied.set_duplicates(served.duplicates);
  for (const WorkerSpan& push : update.pushes) *applied.add_push() = SpanOf(push);
  for (const WorkerSpan& reply : served.replies) *applied.add_reply() = SpanOf(reply);
  if (update.worker.has_value()) applied.set_worker(*update.worker);
  if (update.staleness.has_value()) Put(*update.staleness, &applied);
  for (const int32_t worker : served.rejected) applied.add_rejected(worker);
  for (const int32_t worker : update.late) applied.add_late(worker);
  applied.set_staged_bytes(served.staged_bytes);
  applied.set_blocked_ns(served.blocked_ns);
  applied.set_replicate_ns(served.replicate_ns);
  return applied;
}

// Workers look at their gradients before they push, so this is a second line of defence.
void Warn(int32_t shard, int64_t step, const NonFiniteValue& value) {
  absl::FPrintF(
      stderr,
      "server of shard %d, step %d: the push of worker %d is not finite in tensor %d, element %d; "
      "the sums of its block are NaN\n",
      shard, step, value.worker, value.tensor, value.element);
}

}  // namespace

absl::Status ServerRecord::Open(int index, const Start& start) {
  const std::string& folder = start.run().record_dir();
  const bool first = start.epoch() <= kFirstEpoch;
  ASSIGN_OR_RETURN(writer_,
                   RecordWriter::Create(first ? RecordPath(folder, "server", index)
                                              : RecordPath(folder, "server", index, start.epoch()),
                                        clock_));
  Record record;
  *record.mutable_started() = DescribeProcess("server", index, start.run());
  writer_->Write(record);
  cpu_ns_ = ProcessCpuNs();
  return writer_->status();
}

void ServerRecord::SetUp(const Traffic& traffic) {
  Record record;
  *record.mutable_set_up()->mutable_traffic() = CountOf(traffic);
  writer_->Write(record);
}

void ServerRecord::Update(const UpdateServed& served) {
  const ShardUpdate& update = served.update;
  // Said once: later steps are made of what this one spoilt.
  if (update.non_finite.has_value() && !std::exchange(warned_, true)) {
    Warn(served.shard, update.step, *update.non_finite);
  }
  Record record;
  *record.mutable_applied() = AppliedFrom(served);
  const int64_t cpu_ns = ProcessCpuNs();
  record.mutable_applied()->set_cpu_ns(cpu_ns - std::exchange(cpu_ns_, cpu_ns));
  writer_->Write(record);
  step_ = std::max<int64_t>(step_, update.step);
}

void ServerRecord::Recover(const ServerRecovery& recovery) {
  Record record;
  Recovered* recovered = record.mutable_recovered();
  recovered->set_epoch(recovery.epoch);
  recovered->set_cause(recovery.cause.message().data(), recovery.cause.message().size());
  recovered->set_broken_ns(recovery.broken_ns);
  recovered->set_serving_ns(recovery.serving_ns);
  recovered->set_exposed_ns(recovery.exposed_ns);
  recovered->set_version(recovery.version);
  recovered->set_lost_versions(recovery.lost_versions);
  *recovered->mutable_traffic() = CountOf(recovery.traffic);
  recovered->set_duplicates(recovery.duplicates);
  writer_->Write(record);
}

void ServerRecord::End(const absl::Status& status, bool left, const Traffic& traffic) {
  if (writer_ == nullptr) return;
  Record record;
  Ended* ended = record.mutable_ended();
  ended->set_code(static_cast<int32_t>(status.code()));
  ended->set_message(status.message().data(), status.message().size());
  ended->set_step(step_);
  ended->set_left(left);
  *ended->mutable_traffic() = CountOf(traffic);
  writer_->Write(record);
}

}  // namespace lockstep
