#include "experiments/analyse/recovery.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "experiments/analyse/statistics.h"

namespace lockstep {
namespace {

// One epoch after the first, of one run.
struct Loss {
  bool none_lost = true;             // the group changed, and nobody was lost
  std::optional<int64_t> struck_ns;  // by a planned fault
  int64_t noticed_ns = std::numeric_limits<int64_t>::max();
  int64_t over_ns = 0;
  int64_t exposed_ns = 0;
  int64_t lost_versions = 0;
  int64_t redone_steps = 0;
  int64_t duplicates = 0;
  int64_t transfer_bytes = 0;
  std::string cause;

  void Notice(int64_t ns) {
    if (ns > 0) noticed_ns = std::min(noticed_ns, ns);
  }
  bool over() const { return over_ns > noticed_ns; }
};

double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / static_cast<double>(kNsPerSecond);
}

int64_t BytesOf(const TrafficCount& traffic) {
  return traffic.sent_bytes() + traffic.received_bytes();
}

void AddWorker(const MemberRecord& worker, std::map<int64_t, Loss>* losses) {
  for (size_t i = 0; i < worker.rebuilds.size(); ++i) {
    const Rebuilt& rebuilt = worker.rebuilds[i];
    Loss& loss = (*losses)[rebuilt.epoch()];
    loss.none_lost = rebuilt.none_lost();
    loss.Notice(rebuilt.broken_ns());
    loss.over_ns = std::max(loss.over_ns, worker.rebuilt_ns[i]);
    loss.redone_steps = std::max(loss.redone_steps, worker.redone_steps[i]);
    if (loss.cause.empty()) loss.cause = rebuilt.cause();
  }
}

void AddServer(const MemberRecord& server, std::map<int64_t, Loss>* losses) {
  for (const Recovered& recovered : server.recoveries) {
    Loss& loss = (*losses)[recovered.epoch()];
    loss.Notice(recovered.broken_ns());
    loss.exposed_ns = std::max(loss.exposed_ns, recovered.exposed_ns());
    loss.lost_versions = std::max(loss.lost_versions, recovered.lost_versions());
    loss.duplicates += recovered.duplicates();
    loss.transfer_bytes += BytesOf(recovered.traffic()) / 2;  // each byte is counted on both sides
  }
}

// Each loss has the last strike before it was noticed, and after the one before was.
void FindStrikes(const RunRecord& run, std::vector<Loss>* losses) {
  std::vector<int64_t> strikes;
  for (const std::vector<MemberRecord>* members : {&run.workers, &run.servers}) {
    for (const MemberRecord& member : *members) {
      strikes.insert(strikes.end(), member.struck_ns.begin(), member.struck_ns.end());
    }
  }
  int64_t before_ns = 0;
  for (Loss& loss : *losses) {
    for (const int64_t strike_ns : strikes) {
      if (strike_ns <= before_ns || strike_ns > loss.noticed_ns) continue;
      loss.struck_ns = std::max(strike_ns, loss.struck_ns.value_or(0));
    }
    if (loss.over()) before_ns = loss.noticed_ns;
  }
}

std::vector<Loss> LossesOf(const RunRecord& run) {
  std::map<int64_t, Loss> by_epoch;
  for (const MemberRecord& worker : run.workers) AddWorker(worker, &by_epoch);
  for (const MemberRecord& server : run.servers) AddServer(server, &by_epoch);
  std::vector<Loss> losses;
  losses.reserve(by_epoch.size());
  for (auto& [epoch, loss] : by_epoch) losses.push_back(std::move(loss));
  FindStrikes(run, &losses);
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

// Each in seconds, of all losses of all runs.
struct Times {
  std::vector<double> detection;
  std::vector<double> recovery;
  std::vector<double> unavailable;
  std::vector<double> exposed;
  std::vector<double> change;

  void Add(const Loss& loss) {
    if (loss.over()) {
      (loss.none_lost ? change : recovery).push_back(SecondsBetween(loss.noticed_ns, loss.over_ns));
    }
    if (loss.over() && !loss.none_lost && loss.struck_ns.has_value()) {
      detection.push_back(SecondsBetween(*loss.struck_ns, loss.noticed_ns));
      unavailable.push_back(SecondsBetween(*loss.struck_ns, loss.over_ns));
    }
    if (loss.exposed_ns > 0) exposed.push_back(SecondsBetween(0, loss.exposed_ns));
  }
};

void Put(const std::vector<double>& values, Quantiles* (RecoveryResult::*field)(),
         RecoveryResult* recovery) {
  if (values.empty()) return;
  Quantiles* quantiles = (recovery->*field)();
  quantiles->set_p50(Quantile(values, 0.5));
  quantiles->set_p95(Quantile(values, 0.95));
  quantiles->set_max(*std::max_element(values.begin(), values.end()));
}

void AddLoss(const Loss& loss, RecoveryResult* recovery) {
  (loss.none_lost ? recovery->set_changes(recovery->changes() + 1)
                  : recovery->set_losses(recovery->losses() + 1));
  recovery->set_lost_versions(
      std::max(recovery->lost_versions(), static_cast<double>(loss.lost_versions)));
  recovery->set_redone_steps(
      std::max(recovery->redone_steps(), static_cast<double>(loss.redone_steps)));
  recovery->set_duplicates(recovery->duplicates() + static_cast<double>(loss.duplicates));
  recovery->set_transfer_bytes(recovery->transfer_bytes() +
                               static_cast<double>(loss.transfer_bytes));
  if (recovery->first_cause().empty()) recovery->set_first_cause(loss.cause);
}

double FalseFailovers(const RunRecord& run) {
  double count = 0;
  for (const std::vector<MemberRecord>* members : {&run.workers, &run.servers}) {
    for (const MemberRecord& member : *members) count += member.false_failovers;
  }
  return count;
}

}  // namespace

void AggregateRecovery(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  Times times;
  RecoveryResult recovery;
  for (const RunRecord* run : runs) {
    recovery.set_false_failovers(recovery.false_failovers() + FalseFailovers(*run));
    for (const Loss& loss : LossesOf(*run)) {
      AddLoss(loss, &recovery);
      times.Add(loss);
    }
  }
  const double epochs = recovery.losses() + recovery.changes();
  if (epochs == 0) return;
  recovery.set_transfer_bytes(recovery.transfer_bytes() / epochs);
  Put(times.detection, &RecoveryResult::mutable_detection_s, &recovery);
  Put(times.recovery, &RecoveryResult::mutable_recovery_s, &recovery);
  Put(times.unavailable, &RecoveryResult::mutable_unavailable_s, &recovery);
  Put(times.exposed, &RecoveryResult::mutable_exposed_s, &recovery);
  Put(times.change, &RecoveryResult::mutable_pause_s, &recovery);
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
