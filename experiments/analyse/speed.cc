#include "experiments/analyse/speed.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

std::map<int, double> ByBlock(const VariantResult& variant) {
  std::map<int, double> values;
  const int count = std::min(variant.samples_per_s_by_block_size(), variant.block_size());
  for (int i = 0; i < count; ++i) values[variant.block(i)] = variant.samples_per_s_by_block(i);
  return values;
}

// [variant][common block].
std::vector<std::vector<double>> CommonBlocks(const std::vector<const VariantResult*>& variants) {
  std::vector<std::map<int, double>> maps;
  maps.reserve(variants.size());
  for (const VariantResult* variant : variants) maps.push_back(ByBlock(*variant));
  std::vector<std::vector<double>> values(variants.size());
  for (const auto& entry : maps[0]) {
    const bool common = std::all_of(maps.begin(), maps.end(),
                                    [&](const auto& map) { return map.count(entry.first) > 0; });
    if (!common) continue;
    for (size_t i = 0; i < maps.size(); ++i) values[i].push_back(maps[i].at(entry.first));
  }
  return values;
}

double MeanLog(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return sum / static_cast<double>(values.size());
}

Speed ClaimFor(const RatioInterval& interval, bool rejected) {
  if (rejected && interval.ratio >= kPracticalRatio) return Speed::kFaster;
  const bool within = interval.low > 1 / kPracticalRatio && interval.high < kPracticalRatio;
  return rejected || within ? Speed::kEqual : Speed::kUnclear;
}

}  // namespace

SpeedComparison CompareSpeed(const std::vector<const VariantResult*>& variants) {
  SpeedComparison comparison;
  if (variants.size() < 2) return comparison;
  const std::vector<std::vector<double>> values = CommonBlocks(variants);
  comparison.blocks = static_cast<int>(values[0].size());
  if (comparison.blocks < 2) return comparison;

  std::vector<size_t> order(variants.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t i, size_t j) { return MeanLog(values[i]) > MeanLog(values[j]); });
  std::vector<double> p;
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size(); ++j) {
      const auto pair = PairedLogRatio(values[order[i]], values[order[j]], kSpeedAlpha);
      if (!pair) return comparison;  // a throughput of zero: nothing to divide by
      p.push_back(pair->p);
    }
  }
  const HolmResult holm = Holm(p, kSpeedAlpha)[0];  // the first pair is (fastest, next)
  comparison.first = variants[order[0]];
  comparison.second = variants[order[1]];
  comparison.interval = *PairedLogRatio(values[order[0]], values[order[1]], holm.alpha);
  comparison.claim = ClaimFor(comparison.interval, holm.rejected);
  return comparison;
}

}  // namespace lockstep
