#include "experiments/analyse/recovery.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

#include "base/clock.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

// One epoch after the first, of one run.
struct Loss {
  int64_t noticed_ns = std::numeric_limits<int64_t>::max();
  int64_t over_ns = 0;
  int64_t exposed_ns = 0;
  int64_t lost_versions = 0;
  int64_t redone_steps = 0;
  int64_t duplicates = 0;
  int64_t transfer_bytes = 0;
  std::string cause;

  double unavailable_s() const {
    return static_cast<double>(over_ns - noticed_ns) / static_cast<double>(kNsPerSecond);
  }
};

int64_t BytesOf(const TrafficCount& traffic) {
  return traffic.sent_bytes() + traffic.received_bytes();
}

void AddWorker(const MemberRecord& worker, std::map<int64_t, Loss>* losses) {
  for (size_t i = 0; i < worker.rebuilds.size(); ++i) {
    const Rebuilt& rebuilt = worker.rebuilds[i];
    Loss& loss = (*losses)[rebuilt.epoch()];
    if (rebuilt.broken_ns() > 0) loss.noticed_ns = std::min(loss.noticed_ns, rebuilt.broken_ns());
    loss.over_ns = std::max(loss.over_ns, worker.rebuilt_ns[i]);
    loss.redone_steps = std::max(loss.redone_steps, worker.redone_steps[i]);
    if (loss.cause.empty()) loss.cause = rebuilt.cause();
  }
}

void AddServer(const MemberRecord& server, std::map<int64_t, Loss>* losses) {
  for (const Recovered& recovered : server.recoveries) {
    Loss& loss = (*losses)[recovered.epoch()];
    loss.exposed_ns = std::max(loss.exposed_ns, recovered.exposed_ns());
    loss.lost_versions = std::max(loss.lost_versions, recovered.lost_versions());
    loss.duplicates += recovered.duplicates();
    loss.transfer_bytes += BytesOf(recovered.traffic()) / 2;  // each byte is counted on both sides
  }
}

std::vector<Loss> LossesOf(const RunRecord& run) {
  std::map<int64_t, Loss> by_epoch;
  for (const MemberRecord& worker : run.workers) AddWorker(worker, &by_epoch);
  for (const MemberRecord& server : run.servers) AddServer(server, &by_epoch);
  std::vector<Loss> losses;
  losses.reserve(by_epoch.size());
  for (auto& [epoch, loss] : by_epoch) losses.push_back(std::move(loss));
  return losses;
}

// Samples of the steps that stand, over the time from the first step's start to the last one's end.
double Goodput(const std::vector<const RunRecord*>& runs) {
  double samples = 0;
  double seconds = 0;
  for (const RunRecord* run : runs) {
    int64_t end_ns = 0;
    for (const MemberRecord& worker : run->workers) {
      for (const StepDone& step : worker.steps) samples += step.samples();
      if (!worker.steps.empty()) end_ns = std::max(end_ns, EndNs(worker.steps.back()));
    }
    const int64_t start_ns = FirstStartNs(*run);
    if (end_ns > start_ns) {
      seconds += static_cast<double>(end_ns - start_ns) / static_cast<double>(kNsPerSecond);
    }
  }
  return seconds > 0 ? samples / seconds : 0;
}

}  // namespace

void AggregateRecovery(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  std::vector<double> unavailable_s;
  std::vector<double> exposed_s;
  RecoveryResult recovery;
  double losses = 0;
  for (const RunRecord* run : runs) {
    for (const Loss& loss : LossesOf(*run)) {
      ++losses;
      if (loss.over_ns > loss.noticed_ns) unavailable_s.push_back(loss.unavailable_s());
      if (loss.exposed_ns > 0) {
        exposed_s.push_back(static_cast<double>(loss.exposed_ns) /
                            static_cast<double>(kNsPerSecond));
      }
      recovery.set_lost_versions(
          std::max(recovery.lost_versions(), static_cast<double>(loss.lost_versions)));
      recovery.set_redone_steps(
          std::max(recovery.redone_steps(), static_cast<double>(loss.redone_steps)));
      recovery.set_duplicates(recovery.duplicates() + static_cast<double>(loss.duplicates));
      recovery.set_transfer_bytes(recovery.transfer_bytes() +
                                  static_cast<double>(loss.transfer_bytes));
      if (recovery.first_cause().empty()) recovery.set_first_cause(loss.cause);
    }
  }
  if (losses == 0) return;
  recovery.set_losses(losses);
  recovery.set_transfer_bytes(recovery.transfer_bytes() / losses);
  if (!unavailable_s.empty()) *recovery.mutable_unavailable_s() = MedianInterval(unavailable_s);
  if (!exposed_s.empty()) *recovery.mutable_exposed_s() = MedianInterval(exposed_s);
  recovery.set_goodput_samples_per_s(Goodput(runs));
  *result->mutable_recovery() = std::move(recovery);
}

void AggregatePushes(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  if (result->mode() != "ps_k_of_n") return;
  std::map<int32_t, PushCount> counts;
  for (int32_t worker = 0; worker < result->workers(); ++worker) counts[worker].set_worker(worker);
  for (const RunRecord* run : runs) {
    for (const MemberRecord& server : run->servers) {
      for (const Applied& applied : server.applied) {
        for (const PeerSpan& push : applied.push()) {
          counts[push.worker()].set_accepted(counts[push.worker()].accepted() + 1);
        }
        for (const int32_t worker : applied.rejected()) {
          counts[worker].set_rejected(counts[worker].rejected() + 1);
        }
        for (const int32_t worker : applied.late()) {
          counts[worker].set_late(counts[worker].late() + 1);
        }
      }
    }
  }
  for (auto& [worker, count] : counts) *result->add_pushes() = std::move(count);
}

}  // namespace lockstep
