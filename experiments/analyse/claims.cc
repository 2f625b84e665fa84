#include "experiments/analyse/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/bits.h"
#include "experiments/analyse/bytes.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/run_record.h"

namespace lockstep {
namespace {

constexpr size_t kNamedMax = 3;  // more names than that are a table, not a sentence

bool HasDistance(const VariantResult& variant) {
  return variant.replicas().max_rel().kind_case() == google::protobuf::Value::kNumberValue;
}

std::vector<const VariantResult*> WithIdenticalReplicas(const Evidence& evidence) {
  std::vector<const VariantResult*> identical;
  for (const VariantResult* variant : evidence.compared) {
    if (variant->replicas().state() == "identical") identical.push_back(variant);
  }
  return identical;
}

// "none drifts 12 % apart"; `first`: with the verb, which those after it share.
std::string PartingOf(const VariantResult& variant, bool first) {
  if (variant.replicas().state() != "diverged") return "";
  if (HasDistance(variant)) {
    const std::string apart = Percent(variant.replicas().max_rel().number_value());
    return absl::StrCat(variant.id(), first ? " drifts " : " ", apart, first ? " apart" : "");
  }
  return absl::StrCat(variant.id(), " differs from step ",
                      StepNumber(variant.replicas().first_diff_step()), " on");
}

// Counted over formula, all of one variant.
std::vector<double> RatiosOf(const VariantResult& variant) {
  std::vector<double> ratios;
  if (!variant.has_bytes()) return ratios;
  const ByteRatios counted = CountedOverFormula(variant.bytes());
  for (const std::optional<double>& ratio :
       {counted.worker_sent, counted.worker_received, counted.server_in, counted.server_out}) {
    if (ratio) ratios.push_back(*ratio);
  }
  if (variant.busiest().formula() > 0) {
    ratios.push_back(variant.busiest().bytes_per_step() / variant.busiest().formula());
  }
  return ratios;
}

// That the last probe compared: fewer than the workers that began where a group shrank.
int ReplicasOf(const VariantResult& variant) {
  const ReplicaResult& replicas = variant.replicas();
  if (replicas.probes_size() == 0) return variant.workers();
  const ProbeResult& last = *replicas.probes().rbegin();
  return static_cast<int>(std::count_if(last.hash().begin(), last.hash().end(),
                                        [](const std::string& hash) { return !hash.empty(); }));
}

}  // namespace

std::string NamesOf(const std::vector<const VariantResult*>& variants) {
  if (variants.size() > kNamedMax) return absl::StrCat(variants.size(), " variants");
  std::vector<std::string> names;
  names.reserve(variants.size());
  for (const VariantResult* variant : variants) names.push_back(variant->id());
  return JoinNames(names);
}

bool IsSynchronous(const VariantResult& variant) { return IsSynchronous(variant.mode()); }

Evidence CollectEvidence(const RunFile& run) {
  Evidence evidence{run, {}, {}, nullptr, {}, 0};
  int synchronous = 0;  // largest number of workers
  int ranked = 0;
  for (const VariantResult& variant : run.runs()) {
    evidence.processes = std::max(evidence.processes, variant.workers() + variant.servers());
    if (!variant.ranked()) continue;
    ranked = std::max(ranked, variant.workers());
    if (IsSynchronous(variant)) synchronous = std::max(synchronous, variant.workers());
  }
  const int workers = synchronous > 0 ? synchronous : ranked;
  for (const VariantResult& variant : run.runs()) {
    if (workers > 0 && variant.workers() != workers) continue;
    if (variant.mode() == "none") evidence.control = &variant;
    if (variant.ranked() && !IsSynchronous(variant)) evidence.asynchronous.push_back(&variant);
    if (variant.ranked() && IsSynchronous(variant)) evidence.compared.push_back(&variant);
  }
  std::vector<const VariantResult*> timed;
  std::copy_if(evidence.compared.begin(), evidence.compared.end(), std::back_inserter(timed),
               [](const VariantResult* variant) { return !variant->time_shared(); });
  evidence.speed = CompareSpeed(timed);
  return evidence;
}

std::string SameBitsClaim(const Evidence& evidence) {
  std::vector<BitsGroup> groups = GroupByBits(evidence.compared);
  const auto largest =
      std::max_element(groups.begin(), groups.end(),
                       [](const BitsGroup& a, const BitsGroup& b) { return a.size() < b.size(); });
  if (largest == groups.end() || largest->size() < 2) return "";
  const char* const end = IsExact(evidence.run) ? " end with one hash" : " end with the same bits";
  if (largest->size() == evidence.compared.size() && largest->size() > 2) {
    return absl::StrCat("all ", largest->size(), " synchronous ways", end);
  }
  return absl::StrCat(NamesOf(*largest), end);
}

std::string ReplicaClaim(const Evidence& evidence) {
  const std::vector<const VariantResult*> identical = WithIdenticalReplicas(evidence);
  if (identical.empty()) return "";
  const auto [least, most] = std::minmax_element(
      identical.begin(), identical.end(),
      [](const auto* a, const auto* b) { return ReplicasOf(*a) < ReplicasOf(*b); });
  const int from = ReplicasOf(**least);
  const int to = ReplicasOf(**most);
  return absl::StrCat(NamesOf(identical), identical.size() == 1 ? " keeps " : " keep ", from,
                      from == to ? "" : absl::StrCat(" to ", to), " identical replicas");
}

std::string PartingClaim(const Evidence& evidence) {
  std::vector<std::string> parts;
  std::vector<const VariantResult*> others = evidence.asynchronous;
  if (evidence.control != nullptr) others.insert(others.begin(), evidence.control);
  for (const VariantResult* variant : others) {
    const std::string part = PartingOf(*variant, parts.empty());
    if (!part.empty()) parts.push_back(part);
  }
  if (parts.size() > kNamedMax) parts.resize(kNamedMax);
  return absl::StrJoin(parts, ", ");
}

std::vector<const VariantResult*> ByBusiest(const Evidence& evidence) {
  std::vector<const VariantResult*> sorted;
  for (const VariantResult* variant : evidence.compared) {
    if (variant->has_busiest()) sorted.push_back(variant);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const VariantResult* a, const VariantResult* b) {
                     return a->busiest().bytes_per_step() > b->busiest().bytes_per_step();
                   });
  if (sorted.size() > kNamedMax) sorted = {sorted.front(), sorted.back()};
  return sorted;
}

std::string BusiestOf(const VariantResult& variant) {
  return absl::StrCat(variant.id(), " ", variant.busiest().node(), " ",
                      variant.busiest().direction());
}

std::string BusiestClaim(const Evidence& evidence) {
  std::vector<std::string> parts;
  for (const VariantResult* variant : ByBusiest(evidence)) {
    parts.push_back(
        absl::StrCat(BusiestOf(*variant), " ", Megabytes(variant->busiest().bytes_per_step())));
  }
  if (parts.empty()) return "";
  return absl::StrCat("busiest link per step: ", absl::StrJoin(parts, " against "));
}

std::string FormulaClaim(const Evidence& evidence) {
  constexpr double kCloseMax = 0.01 + 1e-9;  // 1 % itself is close, whatever its last bit
  double apart = -1;
  bool more = true;  // counted is never below the formula
  std::vector<const VariantResult*> counted = evidence.compared;
  counted.insert(counted.end(), evidence.asynchronous.begin(), evidence.asynchronous.end());
  for (const VariantResult* variant : counted) {
    for (const double ratio : RatiosOf(*variant)) {
      apart = std::max(apart, std::fabs(ratio - 1));
      more = more && ratio >= 1;
    }
  }
  if (apart < 0) return "";
  if (apart <= kCloseMax) {
    return absl::StrCat("Counted bytes are within ", Percent(apart), " of the formulas");
  }
  return absl::StrCat("Counted bytes differ from the formulas by up to ", Percent(apart),
                      more ? ": headers of small chunks and buckets" : "");
}

std::string HashClaim(const Evidence& evidence) {
  if (evidence.compared.empty()) return "";
  bool repeated = evidence.run.experiment().blocks() >= 2;
  for (const VariantResult* variant : evidence.compared) {
    repeated = repeated && variant->complete() && variant->repeated_hash_equal();
  }
  if (!repeated) return "";
  return absl::StrCat("Repeated blocks of the same seed ended with the same bits: ",
                      NamesOf(evidence.compared));
}

std::string FinishedClaim(const Evidence& evidence) {
  std::vector<const VariantResult*> complete;
  for (const VariantResult& variant : evidence.run.runs()) {
    if (variant.complete()) complete.push_back(&variant);
  }
  if (complete.empty()) return "no variant ran to its end";
  return absl::StrCat(NamesOf(complete), " finished ",
                      Counted(evidence.run.experiment().steps(), "step"));
}

std::vector<std::string> HeldClaims(const Evidence& evidence) {
  std::vector<std::string> held;
  const std::string same_bits = SameBitsClaim(evidence);
  for (const std::string& claim :
       {same_bits.empty() ? ReplicaClaim(evidence) : same_bits, PartingClaim(evidence),
        same_bits.empty() ? "" : ReplicaClaim(evidence), RecoveryClaim(evidence),
        BoundClaim(evidence), RejectedClaim(evidence), BusiestClaim(evidence),
        BalanceClaim(evidence)}) {
    if (!claim.empty()) held.push_back(claim);
  }
  if (held.empty()) held.push_back(FinishedClaim(evidence));
  return held;
}

}  // namespace lockstep
