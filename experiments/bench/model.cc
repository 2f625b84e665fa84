#include "experiments/bench/model.h"

#include <algorithm>
#include <vector>

#include "allreduce/host/executor.h"
#include "allreduce/schedule/choose.h"
#include "allreduce/schedule/simulate.h"
#include "allreduce/schedule/work.h"
#include "experiments/bench/contestant.h"
#include "experiments/bench/summary.h"

namespace lockstep {
namespace {

constexpr double kNsPerUs = 1e3;

// The schedules that run one after the other; empty: the algorithm is no fixed schedule.
std::vector<ScheduleSpec> SpecsOf(const std::string& algorithm, const BenchRow& row, int channels) {
  ScheduleSpec spec;
  spec.world_size = row.ranks() + row.servers();
  spec.servers = row.servers();
  spec.channels = channels;
  ScheduleSpec second = spec;
  if (algorithm == kReduceBroadcast) {
    spec.collective = Collective::kReduce;
    second.collective = Collective::kBroadcast;
    spec.algorithm = second.algorithm = Algorithm::kTree;
    return {spec, second};
  }
  if (algorithm == kReduceScatterAllGather) {
    spec.collective = Collective::kReduceScatter;
    second.collective = Collective::kAllGather;
    return {spec, second};
  }
  const std::optional<Algorithm> named = AlgorithmNamed(algorithm);
  if (!named.has_value() || *named == Algorithm::kAuto) return {};
  spec.algorithm = *named;
  return {spec};
}

int32_t ChainOf(const CrossingQuery& query, const std::string& algorithm, double bytes) {
  BenchRow row;
  row.set_algorithm(algorithm);
  row.set_ranks(query.ranks);
  row.set_bytes(bytes);
  AddModel(CostModel{.latency_ns = 1}, /*channels=*/1, &row);
  return row.chain();
}

}  // namespace

std::optional<CostModel> CostFrom(const std::string& link_text, int ranks,
                                  const BenchRoofs& roofs) {
  const std::optional<LinkWords> words = ParseLink(link_text);
  if (!words.has_value()) return std::nullopt;
  CostModel cost;
  cost.latency_ns = words->alpha_ns;
  cost.beta_ns_per_byte = words->beta_ns_per_byte;
  if (roofs.fold_gb_s() > 0) cost.gamma_ns_per_byte = 1 / roofs.fold_gb_s();
  if (ranks < 2) return cost;
  const ScheduleSpec probe{.collective = Collective::kAllGather, .world_size = ranks};
  return WithCrowd(cost, probe,
                   {words->crowd_empty_ns, words->crowd_large_ns, words->crowd_bytes, kTileBytes});
}

void AddModel(const CostModel& cost, int channels, BenchRow* row) {
  double time_ns = 0;
  double crowd_ns = 0;
  int32_t chain = 0;
  const std::vector<ScheduleSpec> specs = SpecsOf(row->algorithm(), *row, channels);
  for (const ScheduleSpec& spec : specs) {
    SimulationOptions options;
    options.cost = cost;
    options.bytes = static_cast<int64_t>(row->bytes());
    options.tile_bytes = kTileBytes;
    const absl::StatusOr<Simulation> simulation = Simulate(spec, options);
    if (!simulation.ok()) return;
    time_ns += simulation->time_ns;
    crowd_ns += CrowdNs(cost, WorkOf(spec, options.bytes, kTileBytes));
    chain += simulation->chain;
  }
  if (specs.empty()) return;
  row->set_modelled_us(std::max(time_ns, crowd_ns) / kNsPerUs);
  row->set_chain(chain);
}

std::optional<BenchCrossing> CrossingOf(const CrossingQuery& query, const std::vector<Cell>& cells,
                                        const std::optional<CostModel>& cost) {
  int64_t from = INT64_MAX;
  int64_t to = 0;
  bool small_ran = false;
  bool large_ran = false;
  for (const Cell& cell : cells) {
    if (cell.engine != "host" || cell.link != query.link || cell.ranks != query.ranks) continue;
    from = std::min(from, cell.bytes);
    to = std::max(to, cell.bytes);
    small_ran = small_ran || cell.algorithm == query.small;
    large_ran = large_ran || cell.algorithm == query.large;
  }
  const std::optional<Algorithm> small = AlgorithmNamed(query.small);
  const std::optional<Algorithm> large = AlgorithmNamed(query.large);
  if (!small_ran || !large_ran || !small.has_value() || !large.has_value()) return std::nullopt;
  BenchCrossing crossing;
  crossing.set_link(query.link);
  crossing.set_ranks(query.ranks);
  crossing.set_small(query.small);
  crossing.set_large(query.large);
  const auto measured = MeasuredCrossing(cells, query.link, query.ranks, query.small, query.large);
  if (measured.has_value()) crossing.set_measured_bytes(static_cast<double>(*measured));
  if (cost.has_value()) {
    const auto modelled = CrossingBytes(query.ranks, *small, *large, *cost, from, to, kTileBytes);
    if (modelled.has_value()) crossing.set_modelled_bytes(static_cast<double>(*modelled));
  }
  crossing.set_small_chain(ChainOf(query, query.small, static_cast<double>(from)));
  crossing.set_large_chain(ChainOf(query, query.large, static_cast<double>(from)));
  return crossing;
}

}  // namespace lockstep
