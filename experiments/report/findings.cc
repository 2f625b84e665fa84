#include "experiments/report/findings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/bits.h"
#include "experiments/analyse/claims.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/run_record.h"
#include "experiments/analyse/speed.h"
#include "experiments/report/number.h"

namespace lockstep {
namespace {

constexpr double kFormulaClose = 0.01;  // counted bytes this near to the formula confirm it
constexpr double kBytesApart = 1.1;     // a ratio worth a sentence
constexpr double kShareApart = 0.1;     // of a step
constexpr double kEfficiencyApart = 0.15;
constexpr double kLawTolerance = 0.5;  // updates; the law holds for the mean
constexpr size_t kNamedMax = 3;        // more names than that are a number

using Results = std::vector<const VariantResult*>;

std::string NamesOf(const Results& results, const std::string& ways) {
  if (results.size() > kNamedMax) return absl::StrCat(results.size(), " ", ways);
  std::vector<std::string> names;
  names.reserve(results.size());
  for (const VariantResult* result : results) names.push_back(NameOf(*result));
  return JoinNames(names);
}

struct Extremes {
  const PageRow* least = nullptr;
  const PageRow* most = nullptr;
};
// Of the ranked rows for which `value` is known; both null when there are none.
Extremes FindExtremes(const std::vector<PageRow>& rows,
                      const std::function<std::optional<double>(const VariantResult&)>& value) {
  Extremes found;
  for (const PageRow& row : rows) {
    const std::optional<double> own = row.result->ranked() ? value(*row.result) : std::nullopt;
    if (!own) continue;
    if (found.least == nullptr || *own < *value(*found.least->result)) found.least = &row;
    if (found.most == nullptr || *own > *value(*found.most->result)) found.most = &row;
  }
  return found;
}

bool Apart(const Interval& a, const Interval& b) {
  return a.n() > 1 && b.n() > 1 && (a.high() < b.low() || b.high() < a.low());
}

// Throughput at the most workers over the linear continuation of that at the fewest.
std::optional<double> Efficiency(const PageView& view, const VariantResult& result) {
  const VariantResult* fewest = nullptr;
  for (const PageRow& row : view.rows) {
    const VariantResult& other = *row.result;
    if (NameOf(other) != NameOf(result) || other.servers() != result.servers()) continue;
    if (other.samples_per_s().n() < 1 || other.workers() < 1) continue;
    if (fewest == nullptr || other.workers() < fewest->workers()) fewest = &other;
  }
  if (fewest == nullptr || fewest->workers() == result.workers()) return std::nullopt;
  const double linear = fewest->samples_per_s().median() * result.workers() / fewest->workers();
  if (!(linear > 0) || result.samples_per_s().n() < 1) return std::nullopt;
  return result.samples_per_s().median() / linear;
}

std::optional<double> BusiestBytes(const VariantResult& result) {
  if (result.busiest().node().empty() || !(result.busiest().bytes_per_step() > 0)) {
    return std::nullopt;
  }
  return result.busiest().bytes_per_step();
}

double OffFormula(const VariantResult& result) {
  const Busiest& busiest = result.busiest();
  return busiest.formula() > 0 ? busiest.bytes_per_step() / busiest.formula() - 1 : 0;
}

std::optional<double> SyncShare(const VariantResult& result) {
  const Anatomy& anatomy = result.anatomy_us();
  const double step = anatomy.compute() + anatomy.sync();
  return step > 0 ? std::optional<double>(anatomy.sync() / step) : std::nullopt;
}

}  // namespace

std::string ScalingFinding(const PageView& view) {
  constexpr char kNeutral[] = "Throughput by workers";
  if (view.run->host().cpu_bound()) return kNeutral;
  const auto efficiency = [&](const VariantResult& result) { return Efficiency(view, result); };
  const Extremes found = FindExtremes(view.largest, efficiency);
  if (found.least == found.most) return kNeutral;
  const double least = *efficiency(*found.least->result);
  const double most = *efficiency(*found.most->result);
  if (most - least < kEfficiencyApart ||
      !Apart(found.least->result->samples_per_s(), found.most->result->samples_per_s())) {
    return kNeutral;
  }
  return absl::StrCat(NameOf(*found.most->result), " keeps ", FormatShare(most),
                      " of linear speed at ", Plural(found.most->result->workers(), "worker"), ", ",
                      NameOf(*found.least->result), " ", FormatShare(least));
}

std::string BusiestFinding(const PageView& view) {
  constexpr char kNeutral[] = "Busiest link";
  const PageRow* worst = nullptr;
  for (const PageRow& row : view.rows) {
    if (!BusiestBytes(*row.result)) continue;
    if (worst == nullptr ||
        std::abs(OffFormula(*row.result)) > std::abs(OffFormula(*worst->result))) {
      worst = &row;
    }
  }
  if (worst == nullptr) return kNeutral;
  if (std::abs(OffFormula(*worst->result)) > kFormulaClose) {
    return absl::StrCat("The busiest link of ", worst->result->id(), " is ",
                        FormatSignedShare(OffFormula(*worst->result)), " off its formula");
  }
  const Extremes found = FindExtremes(view.largest, BusiestBytes);
  if (found.least == found.most) return kNeutral;
  const Busiest& least = found.least->result->busiest();
  const Busiest& most = found.most->result->busiest();
  const double ratio = most.bytes_per_step() / least.bytes_per_step();
  if (ratio < kBytesApart) return kNeutral;
  const bool lawful = least.formula() > 0 && most.formula() > 0;
  return absl::StrCat("The busiest link of ", NameOf(*found.most->result), " carries ",
                      Significant(ratio, 2), " times what that of ", NameOf(*found.least->result),
                      " carries", lawful ? ", as the formulas say" : "");
}

std::string AnatomyFinding(const PageView& view) {
  constexpr char kNeutral[] = "Where the time of a step goes";
  if (view.run->host().cpu_bound()) return kNeutral;
  const Extremes found = FindExtremes(view.largest, SyncShare);
  if (found.least == found.most) return kNeutral;
  const double least = *SyncShare(*found.least->result);
  const double most = *SyncShare(*found.most->result);
  if (most - least < kShareApart) return kNeutral;
  return absl::StrCat("Synchronisation takes ", FormatShare(least), " of a step of ",
                      NameOf(*found.least->result), ", ", FormatShare(most), " of ",
                      NameOf(*found.most->result));
}

std::string DivergenceFinding(const PageView& view) {
  const auto promised = [](const PageRow& row, const char* state) {
    return row.result->ranked() && IsSynchronous(row.result->mode()) &&
           row.result->replicas().state() == state;
  };
  Results identical;
  Results broken;
  for (const PageRow& row : view.rows) {
    if (promised(row, "diverged")) broken.push_back(row.result);
  }
  for (const PageRow& row : view.largest) {
    if (promised(row, "identical")) identical.push_back(row.result);
  }
  if (!broken.empty()) {
    return absl::StrCat("Replicas of ", NamesOf(broken, "ways"),
                        " differ, although equality is promised");
  }
  if (identical.empty()) return "Do the replicas stay the same?";
  const std::string parting = PartingClaim(CollectEvidence(*view.run));
  return absl::StrCat(NamesOf(identical, "synchronous ways"),
                      identical.size() == 1 ? " keeps" : " keep", " bit-identical replicas",
                      parting.empty() ? "" : "; ", parting);
}

std::string SameBitsFinding(const PageView& view) {
  if (const std::optional<BitsConflict> conflict = FindBitsConflict(*view.run)) {
    return absl::StrCat(conflict->first->id(), " and ", conflict->second->id(),
                        " end with different bits, although ",
                        IsExact(*view.run) ? "EXACT promises the same" : "they add alike");
  }
  const std::vector<BitsGroup> groups = GroupByBits(ResultsOf(view.largest));
  size_t ways = 0;
  for (const BitsGroup& group : groups) ways += group.size();
  if (ways < 2) return "Same bits?";
  if (groups.size() == 1) {
    return absl::StrCat(NamesOf(groups[0], "synchronous ways"), " end with the same bits");
  }
  return absl::StrCat(ways, " synchronous ways end with ", groups.size(),
                      " different sets of bits");
}

std::string StalenessFinding(const PageView& view) {
  const PageRow* worst = nullptr;
  const auto off = [](const PageRow& row) {
    const StalenessResult& staleness = row.result->staleness();
    return std::abs(staleness.mean_update() - staleness.expected_mean());
  };
  for (const PageRow& row : view.largest) {
    if (!row.result->has_staleness()) continue;
    if (worst == nullptr || off(row) > off(*worst)) worst = &row;
  }
  if (worst == nullptr) return "Staleness";
  const StalenessResult& staleness = worst->result->staleness();
  return absl::StrCat("An update of ", NameOf(*worst->result), " is ",
                      FormatValue(staleness.mean_update()), " updates old on average; ",
                      off(*worst) <= kLawTolerance ? "the law says " : "that is off the law’s ",
                      FormatValue(staleness.expected_mean()));
}

std::string LossFinding(const PageView& view) {
  constexpr char kNeutral[] = "Does it still learn?";
  const auto samples = [](const VariantResult& result) -> std::optional<double> {
    const TargetResult& target = result.target();
    if (!result.has_target() || target.seeds() < kSureBlocks || target.reached() < target.seeds()) {
      return std::nullopt;
    }
    return target.samples().median();
  };
  const Extremes found = FindExtremes(view.largest, samples);
  if (found.least == found.most) return kNeutral;
  const TargetResult& least = found.least->result->target();
  const TargetResult& most = found.most->result->target();
  if (!(least.samples().median() > 0) || !Apart(least.samples(), most.samples())) return kNeutral;
  return absl::StrCat(NameOf(*found.most->result), " needs ",
                      Significant(most.samples().median() / least.samples().median(), 2),
                      " times the samples of ", NameOf(*found.least->result), " to reach loss ",
                      FormatValue(least.loss()));
}

}  // namespace lockstep
