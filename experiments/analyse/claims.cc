#include "experiments/analyse/claims.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/bytes.h"
#include "experiments/analyse/format.h"

namespace lockstep {
namespace {

constexpr size_t kNamedMax = 3;  // more names than that are a table, not a sentence
constexpr char kNotMeasured[] = "not measured";

std::string NamesOf(const std::vector<const VariantResult*>& variants) {
  if (variants.size() > kNamedMax) return absl::StrCat(variants.size(), " variants");
  std::vector<std::string> names;
  names.reserve(variants.size());
  for (const VariantResult* variant : variants) names.push_back(variant->id());
  return JoinNames(names);
}

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

// Largest first; at most kNamedMax, else the two ends.
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

Fact MakeFact(const std::string& value, const std::string& label) {
  Fact fact;
  fact.set_value(value.empty() ? kNotMeasured : value);
  fact.set_label(label);
  return fact;
}

Fact SizeFact(const Evidence& evidence) {
  const double bytes = evidence.run.model().gradient_bytes();
  const int workers = evidence.compared.empty() ? evidence.run.experiment().workers()
                                                : evidence.compared[0]->workers();
  return MakeFact(bytes > 0 ? Megabytes(bytes) : "",
                  absl::StrCat("gradients per step (S), ", Counted(workers, "worker"), " (n)"));
}

Fact ShareFact(const Evidence& evidence) {
  std::vector<std::string> values;
  std::vector<std::string> names;
  for (const VariantResult* variant : evidence.compared) {
    const Anatomy& anatomy = variant->anatomy_us();
    const double step_us = anatomy.compute() + anatomy.sync();
    if (!(step_us > 0) || values.size() == kNamedMax) continue;
    values.push_back(Percent(anatomy.sync() / step_us));
    names.push_back(variant->id());
  }
  return MakeFact(absl::StrJoin(values, " / "),
                  absl::StrCat("of the step is exchange and update", names.empty() ? "" : ": ",
                               absl::StrJoin(names, " / ")));
}

Fact BusiestFact(const Evidence& evidence) {
  std::vector<std::string> values;
  std::vector<std::string> names;
  for (const VariantResult* variant : ByBusiest(evidence)) {
    values.push_back(Megabytes(variant->busiest().bytes_per_step()));
    names.push_back(BusiestOf(*variant));
  }
  return MakeFact(absl::StrJoin(values, " / "),
                  absl::StrCat("on the busiest link per step", names.empty() ? "" : ": ",
                               absl::StrJoin(names, " / ")));
}

Fact ReplicaFact(const Evidence& evidence) {
  std::vector<std::string> states;
  for (const VariantResult* variant : evidence.compared) {
    const std::string& state = variant->replicas().state();
    if (std::find(states.begin(), states.end(), state) == states.end()) states.push_back(state);
  }
  std::string label =
      absl::StrCat("replicas", evidence.compared.empty() ? "" : " of ", NamesOf(evidence.compared));
  const std::string control = ControlClaim(evidence);
  if (!control.empty()) absl::StrAppend(&label, "; ", control);
  return MakeFact(absl::StrJoin(states, " / "), label);
}

}  // namespace

bool IsSynchronous(const VariantResult& variant) {
  return variant.mode() == "ps_sync" || variant.mode() == "all_reduce";
}

Evidence CollectEvidence(const RunFile& run) {
  Evidence evidence{run, {}, nullptr, {}, 0};
  int workers = 0;
  for (const VariantResult& variant : run.runs()) {
    evidence.processes = std::max(evidence.processes, variant.workers() + variant.servers());
    if (variant.ranked() && IsSynchronous(variant)) workers = std::max(workers, variant.workers());
  }
  for (const VariantResult& variant : run.runs()) {
    if (variant.ranked() && IsSynchronous(variant) && variant.workers() == workers) {
      evidence.compared.push_back(&variant);
    }
    const bool same_size = workers == 0 || variant.workers() == workers;
    if (variant.mode() == "none" && same_size) evidence.control = &variant;
  }
  evidence.speed = CompareSpeed(evidence.compared);
  return evidence;
}

std::string ReplicaClaim(const Evidence& evidence) {
  const std::vector<const VariantResult*> identical = WithIdenticalReplicas(evidence);
  if (identical.empty()) return "";
  return absl::StrCat(NamesOf(identical), identical.size() == 1 ? " keeps " : " keep ",
                      identical[0]->workers(), " identical replicas");
}

std::string ControlClaim(const Evidence& evidence) {
  if (evidence.control == nullptr) return "";
  const VariantResult& control = *evidence.control;
  if (control.replicas().state() != "diverged") return "";
  if (HasDistance(control)) {
    return absl::StrCat(control.id(), " drifts ",
                        Percent(control.replicas().max_rel().number_value()), " apart");
  }
  return absl::StrCat(control.id(), " differs from step ",
                      StepNumber(control.replicas().first_diff_step()), " on");
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
  for (const VariantResult* variant : evidence.compared) {
    if (!variant->has_bytes()) continue;
    const ByteRatios ratios = CountedOverFormula(variant->bytes());
    for (const std::optional<double>& ratio :
         {ratios.worker_sent, ratios.worker_received, ratios.server_in, ratios.server_out}) {
      if (!ratio) continue;
      apart = std::max(apart, std::fabs(*ratio - 1));
      more = more && *ratio >= 1;
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
  for (const std::string& claim :
       {ReplicaClaim(evidence), ControlClaim(evidence), BusiestClaim(evidence)}) {
    if (!claim.empty()) held.push_back(claim);
  }
  if (held.empty()) held.push_back(FinishedClaim(evidence));
  return held;
}

std::vector<Fact> FourFacts(const Evidence& evidence) {
  return {SizeFact(evidence), ShareFact(evidence), BusiestFact(evidence), ReplicaFact(evidence)};
}

}  // namespace lockstep
