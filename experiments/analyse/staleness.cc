#include "experiments/analyse/staleness.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "base/clock.h"

namespace lockstep {
namespace {

constexpr int64_t kStalenessMax = 9'999;  // the last bar holds what is above; bounds the memory

// Of one server, over all runs.
struct ServerCount {
  std::vector<double> clock;
  std::vector<double> update;
  double clock_sum = 0;
  double clock_max = 0;
  double update_sum = 0;
  double others_sum = 0;  // at work beside the update's own worker
  double updates = 0;
  double gap_ns = 0;
  double cycle_ns = 0;

  void Add(const Applied& applied, double others) {
    others_sum += others;
    AddTo(&clock, applied.clock_staleness());
    AddTo(&update, applied.update_staleness());
    clock_sum += static_cast<double>(applied.clock_staleness());
    clock_max = std::max(clock_max, static_cast<double>(applied.clock_staleness()));
    update_sum += static_cast<double>(applied.update_staleness());
    ++updates;
    if (!applied.has_gap_ns() || !applied.has_cycle_ns()) return;  // its first or last update here
    gap_ns += static_cast<double>(applied.gap_ns());
    cycle_ns += static_cast<double>(applied.cycle_ns());
  }
  void Add(const ServerCount& other) {
    clock_sum += other.clock_sum;
    clock_max = std::max(clock_max, other.clock_max);
    update_sum += other.update_sum;
    others_sum += other.others_sum;
    updates += other.updates;
    gap_ns += other.gap_ns;
    cycle_ns += other.cycle_ns;
  }
  double gap_share() const { return cycle_ns > 0 ? gap_ns / cycle_ns : 0; }

 private:
  static void AddTo(std::vector<double>* histogram, int64_t staleness) {
    const auto bar = static_cast<size_t>(std::clamp<int64_t>(staleness, 0, kStalenessMax));
    histogram->resize(std::max(histogram->size(), bar + 1), 0);
    ++(*histogram)[bar];
  }
};

// For each update of one server: how many other workers were at work, between their first update
// there and their last, at this worker's update before it, where its read follows. A worker that
// has ended makes nobody stale.
std::vector<double> OthersAtWork(const std::vector<Applied>& applied) {
  std::map<int32_t, std::pair<size_t, size_t>> span;  // of a worker's updates: first, last
  for (size_t i = 0; i < applied.size(); ++i) {
    span.try_emplace(applied[i].worker(), i, i).first->second.second = i;
  }
  std::vector<double> at_work(applied.size(), -1);  // beside the update's own worker
  for (const auto& [worker, ends] : span) {
    for (size_t i = ends.first; i <= ends.second; ++i) ++at_work[i];
  }
  std::vector<double> others = at_work;
  std::map<int32_t, size_t> before;
  for (size_t i = 0; i < applied.size(); ++i) {
    const auto last = before.try_emplace(applied[i].worker(), i).first;
    others[i] = at_work[last->second];
    last->second = i;
  }
  return others;
}

ServerStaleness ToResult(size_t index, const ServerCount& count) {
  ServerStaleness result;
  result.set_server(static_cast<int>(index));
  result.mutable_clock()->Assign(count.clock.begin(), count.clock.end());
  result.mutable_update()->Assign(count.update.begin(), count.update.end());
  result.set_mean_clock(count.clock_sum / count.updates);
  result.set_mean_update(count.update_sum / count.updates);
  result.set_gap_share(count.gap_share());
  return result;
}

double ExpectedUpdates(const std::vector<const RunRecord*>& runs) {
  double expected = 0;
  for (const RunRecord* run : runs) {
    expected += static_cast<double>(run->config.world_size()) * run->steps();
  }
  return expected;
}

// Of the shard furthest from `expected`; a server without any counts as a shard with none.
double AppliedUpdates(const std::vector<const RunRecord*>& runs, double expected) {
  std::map<int32_t, double> of_shard;
  for (const RunRecord* run : runs) {
    // After a failover a shard's updates stand in the records of two servers, and what the lost one
    // had told nobody is made again by the other. One server makes each once.
    std::map<int32_t, std::map<std::pair<int32_t, int64_t>, int>> made;  // shard, (worker, step)
    std::map<int32_t, double> newest;                                    // version of each shard
    for (int32_t shard = 0; shard < run->config.servers(); ++shard) made[shard];
    for (const MemberRecord& server : run->servers) {
      std::map<int32_t, std::map<std::pair<int32_t, int64_t>, int>> here;
      for (const Applied& applied : server.applied) {
        ++here[applied.shard()][{applied.worker(), applied.step()}];
        double& version = newest[applied.shard()];
        version = std::max(version, static_cast<double>(applied.version()));
      }
      for (const auto& [shard, updates] : here) {
        for (const auto& [update, times] : updates) {
          made[shard][update] = std::max(made[shard][update], times);
        }
      }
    }
    for (const auto& [shard, updates] : made) {
      double& all = of_shard[shard];
      double counted = 0;
      for (const auto& [update, times] : updates) counted += times;
      // What a killed server had no time to write is in the versions of those that went on.
      all += std::max(counted, newest[shard]);
    }
  }
  double furthest = of_shard.empty() ? 0 : of_shard.begin()->second;
  for (const auto& entry : of_shard) {
    if (std::fabs(entry.second - expected) > std::fabs(furthest - expected)) {
      furthest = entry.second;
    }
  }
  return furthest;
}

// [worker]: how long the bound held its replies, at the server that held them longest; mean of a
// run.
std::vector<double> BlockedSeconds(const std::vector<const RunRecord*>& runs) {
  std::vector<double> blocked_s(static_cast<size_t>(runs[0]->config.world_size()), 0);
  for (const RunRecord* run : runs) {
    std::vector<double> of_run(blocked_s.size(), 0);
    for (const MemberRecord& server : run->servers) {
      std::vector<double> here(blocked_s.size(), 0);
      for (const Applied& applied : server.applied) {
        const auto worker = static_cast<size_t>(applied.worker());
        if (worker >= here.size()) continue;
        here[worker] +=
            static_cast<double>(applied.blocked_ns()) / static_cast<double>(kNsPerSecond);
      }
      for (size_t i = 0; i < here.size(); ++i) of_run[i] = std::max(of_run[i], here[i]);
    }
    for (size_t i = 0; i < of_run.size(); ++i) {
      blocked_s[i] += of_run[i] / static_cast<double>(runs.size());
    }
  }
  return blocked_s;
}

double ModelVersions(const RunRecord& run) {
  if (ModeOf(run.config.variant()) == "none") return 0;
  if (run.servers.empty() || run.servers[0].applied.empty()) {
    return static_cast<double>(CommonSteps(run));  // every worker makes the same state itself
  }
  const std::vector<Applied>& applied = run.servers[0].applied;
  const int32_t shard = applied.front().shard();
  return static_cast<double>(std::count_if(
      applied.begin(), applied.end(), [&](const Applied& one) { return one.shard() == shard; }));
}

double LargestStepGap(const RunRecord& run) {
  std::vector<std::pair<int64_t, size_t>> ends;  // (ns, rank)
  for (size_t rank = 0; rank < run.workers.size(); ++rank) {
    for (const StepDone& step : run.workers[rank].steps) ends.emplace_back(EndNs(step), rank);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<int64_t> finished(run.workers.size(), 0);
  int64_t largest = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    ++finished[ends[i].second];
    // Steps that end in the same instant count together, in whatever order they are listed.
    if (i + 1 < ends.size() && ends[i + 1].first == ends[i].first) continue;
    const auto [least, most] = std::minmax_element(finished.begin(), finished.end());
    largest = std::max(largest, *most - *least);
  }
  return static_cast<double>(largest);
}

}  // namespace

void AggregateStaleness(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  if (!AppliesAlone(result->mode()) || runs.empty()) return;
  std::vector<ServerCount> servers;
  ServerCount all;
  for (const RunRecord* run : runs) {
    servers.resize(std::max(servers.size(), run->servers.size()));
    for (size_t i = 0; i < run->servers.size(); ++i) {
      const std::vector<Applied>& applied = run->servers[i].applied;
      const std::vector<double> others = OthersAtWork(applied);
      for (size_t j = 0; j < applied.size(); ++j) {
        if (applied[j].step() <= kStalenessWarmupSteps) continue;
        if (applied[j].has_update_staleness()) servers[i].Add(applied[j], others[j]);
      }
    }
  }
  StalenessResult* staleness = result->mutable_staleness();
  for (size_t i = 0; i < servers.size(); ++i) {
    if (servers[i].updates == 0) continue;
    *staleness->add_server() = ToResult(i, servers[i]);
    all.Add(servers[i]);
  }
  if (all.updates > 0) {
    staleness->set_mean_update(all.update_sum / all.updates);
    staleness->set_mean_clock(all.clock_sum / all.updates);
    staleness->set_gap_share(all.gap_share());
    staleness->set_expected_mean(all.others_sum / all.updates * (1 - all.gap_share()));
  }
  staleness->set_clock_max(all.clock_max);
  if (result->mode() == "ps_bounded") {
    staleness->set_bound(runs[0]->config.variant().ps().staleness());
    for (const double blocked_s : BlockedSeconds(runs)) staleness->add_blocked_s(blocked_s);
  }
  staleness->set_expected_applied(ExpectedUpdates(runs));
  staleness->set_applied(AppliedUpdates(runs, staleness->expected_applied()));
}

void AggregateSynchrony(const std::vector<const RunRecord*>& runs, VariantResult* result) {
  const auto complete =
      std::find_if(runs.begin(), runs.end(), [](const RunRecord* run) { return run->complete; });
  if (complete == runs.end()) return;
  result->mutable_synchrony()->set_model_versions(ModelVersions(**complete));
  result->mutable_synchrony()->set_step_gap_max(LargestStepGap(**complete));
}

}  // namespace lockstep
