#include "experiments/bench/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "experiments/analyse/statistics.h"
#include "experiments/bench/contestant.h"

namespace lockstep {
namespace {

constexpr int kFloorRanks = 2;

using Place = std::tuple<std::string, int, int64_t>;  // link, ranks, bytes

// The fastest cell of an engine at each place.
std::map<Place, const Cell*> BestOf(const std::vector<Cell>& cells, const std::string& engine) {
  std::map<Place, const Cell*> best;
  for (const Cell& cell : cells) {
    if (cell.engine != engine || cell.rounds_us.empty() || cell.servers != 0) continue;
    const Cell*& present = best[{cell.link, cell.ranks, cell.bytes}];
    if (present == nullptr || cell.p50_us() < present->p50_us()) present = &cell;
  }
  return best;
}

BenchComparison CompareTwo(const Cell& ours, const Cell& peer) {
  BenchComparison comparison;
  comparison.set_link(ours.link);
  comparison.set_ranks(ours.ranks);
  comparison.set_bytes(static_cast<double>(ours.bytes));
  comparison.set_peer(peer.engine);
  comparison.set_ours_setting(ours.Label());
  comparison.set_peer_setting(peer.Label());
  comparison.set_ours_us(ours.p50_us());
  comparison.set_peer_us(peer.p50_us());
  std::vector<double> ratios;
  const size_t rounds = std::min(ours.rounds_us.size(), peer.rounds_us.size());
  for (size_t i = 0; i < rounds; ++i) ratios.push_back(peer.rounds_us[i] / ours.rounds_us[i]);
  *comparison.mutable_ratio() = MedianInterval(ratios);
  return comparison;
}

}  // namespace

std::vector<BenchComparison> Compare(const std::vector<Cell>& cells) {
  std::vector<BenchComparison> comparisons;
  const std::map<Place, const Cell*> ours = BestOf(cells, "host");
  for (const char* const peer : {"mpi", "gloo"}) {
    for (const auto& [place, cell] : BestOf(cells, peer)) {
      const auto it = ours.find(place);
      if (it != ours.end()) comparisons.push_back(CompareTwo(*it->second, *cell));
    }
  }
  return comparisons;
}

std::vector<BenchGeomean> Geomeans(const std::vector<BenchComparison>& comparisons) {
  std::map<std::tuple<std::string, std::string, int>, std::vector<double>> ratios;
  for (const BenchComparison& comparison : comparisons) {
    ratios[{comparison.link(), comparison.peer(), comparison.ranks()}].push_back(
        comparison.ratio().median());
  }
  std::vector<BenchGeomean> geomeans;
  for (const auto& [key, values] : ratios) {
    double log_sum = 0;
    for (const double value : values) log_sum += std::log(value);
    BenchGeomean& geomean = geomeans.emplace_back();
    geomean.set_link(std::get<0>(key));
    geomean.set_peer(std::get<1>(key));
    geomean.set_ranks(std::get<2>(key));
    geomean.set_ratio(std::exp(log_sum / static_cast<double>(values.size())));
    geomean.set_sizes(static_cast<int32_t>(values.size()));
    geomean.set_least(*std::min_element(values.begin(), values.end()));
  }
  return geomeans;
}

std::optional<int64_t> MeasuredCrossing(const std::vector<Cell>& cells, const std::string& link,
                                        int ranks, const std::string& small,
                                        const std::string& large) {
  std::map<int64_t, double> small_us;
  std::map<int64_t, double> large_us;
  for (const Cell& cell : cells) {
    if (cell.engine != "host" || cell.link != link || cell.ranks != ranks) continue;
    if (cell.algorithm == small) small_us.emplace(cell.bytes, cell.p50_us());
    if (cell.algorithm == large) large_us.emplace(cell.bytes, cell.p50_us());
  }
  std::optional<int64_t> crossing;
  for (auto it = large_us.rbegin(); it != large_us.rend(); ++it) {
    const auto other = small_us.find(it->first);
    if (other == small_us.end() || it->second > other->second) break;
    crossing = it->first;
  }
  return crossing;
}

std::optional<BenchFloor> FloorOf(const std::vector<Cell>& cells) {
  const std::map<Place, const Cell*> ours = BestOf(cells, "host");
  std::optional<BenchFloor> floor;
  for (const auto& [place, roof] : BestOf(cells, kRoof)) {  // sizes ascend
    const auto it = ours.find(place);
    if (it == ours.end() || roof->ranks != kFloorRanks || roof->bytes < kFloorBytesMin) continue;
    const BenchComparison pair = CompareTwo(*it->second, *roof);
    floor.emplace();
    floor->set_ranks(roof->ranks);
    floor->set_bytes(static_cast<double>(roof->bytes));
    floor->set_moved_bytes(2.0 * roof->ranks * static_cast<double>(roof->bytes));
    floor->set_floor_us(pair.peer_us());
    floor->set_ours_us(pair.ours_us());
    floor->set_share(pair.ratio().median());
  }
  return floor;
}

}  // namespace lockstep
