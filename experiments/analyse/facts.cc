#include "experiments/analyse/facts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/format.h"

namespace lockstep {
namespace {

constexpr char kNotMeasured[] = "not measured";
constexpr size_t kNamedMax = 3;  // more numbers than that are a table

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

// Largest first; at most kNamedMax, else the two ends.
Fact ShareFact(const Evidence& evidence) {
  std::vector<std::pair<double, std::string>> shares;
  for (const VariantResult* variant : evidence.compared) {
    const Anatomy& anatomy = variant->anatomy_us();
    const double step_us = anatomy.compute() + anatomy.sync();
    if (step_us > 0) shares.emplace_back(anatomy.sync() / step_us, variant->id());
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (shares.size() > kNamedMax) shares = {shares.front(), shares.back()};
  std::vector<std::string> values;
  std::vector<std::string> names;
  for (const auto& [share, name] : shares) {
    values.push_back(Percent(share));
    names.push_back(name);
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
  const std::string control = PartingClaim(evidence);
  if (!control.empty()) absl::StrAppend(&label, "; ", control);
  return MakeFact(absl::StrJoin(states, " / "), label);
}

}  // namespace

std::vector<Fact> FourFacts(const Evidence& evidence) {
  return {SizeFact(evidence), ShareFact(evidence), BusiestFact(evidence), ReplicaFact(evidence)};
}

}  // namespace lockstep
