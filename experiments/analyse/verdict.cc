#include "experiments/analyse/verdict.h"

#include <algorithm>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "experiments/analyse/claims.h"
#include "experiments/analyse/facts.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/rules.h"

namespace lockstep {
namespace {

std::vector<Rule> AllRules() {
  std::vector<Rule> rules;
  for (const std::span<const Rule> table : {StoppedRules(), PromiseRules(), SpeedRules()}) {
    rules.insert(rules.end(), table.begin(), table.end());
  }
  return rules;
}

std::string Sentences(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    std::string sentence = part;
    if (sentence.back() != '.') sentence += '.';
    absl::StrAppend(&text, text.empty() ? "" : " ", sentence);
  }
  return text;
}

// "gradient mean over 4 workers, global batch 128; ": what one step means, as far as known.
std::string StepText(const ExperimentInfo& experiment) {
  std::vector<std::string> parts;
  if (!experiment.reduce_op().empty()) {
    parts.push_back(absl::StrCat("gradient ", experiment.reduce_op(), " over ",
                                 Counted(experiment.workers(), "worker")));
  }
  if (experiment.global_batch() > 0) {
    parts.push_back(absl::StrCat("global batch ", experiment.global_batch()));
  }
  return absl::StrCat(absl::StrJoin(parts, ", "), parts.empty() ? "" : "; ");
}

std::string Caveat(const RunFile& run) {
  const std::string& cpu = run.host().cpu();
  std::vector<std::string> unchecked;
  for (const VariantResult& variant : run.runs()) {
    if (IsSynchronous(variant) && variant.replicas().state() == "unchecked") {
      unchecked.push_back(variant.id());
    }
  }
  return Sentences(
      {absl::StrCat("Time base ", absl::AsciiStrToUpper(run.experiment().time_base()),
                    ": real processes over loopback on one host (",
                    cpu.empty() ? "CPU unknown" : cpu, ", ", Counted(run.host().cores(), "core"),
                    "); ", StepText(run.experiment()), Counted(run.experiment().blocks(), "block"),
                    "; first ", Counted(run.experiment().warmup_steps(), "step"),
                    " left out of every time"),
       unchecked.empty()
           ? ""
           : absl::StrCat("Replicas of ", JoinNames(unchecked), " were not compared")});
}

}  // namespace

std::string Capitalised(std::string text) {
  if (!text.empty()) text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

VerdictInfo Decide(const RunFile& run) {
  const Evidence evidence = CollectEvidence(run);
  const std::vector<Rule> rules = AllRules();
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.holds(evidence); });
  CHECK(rule != rules.end()) << "the last rule holds always";
  const RuleText text = rule->text(evidence);
  VerdictInfo verdict;
  verdict.set_rule(rule->name);
  verdict.set_head(text.head);
  verdict.set_why(Sentences(text.why));
  verdict.set_caveat(Caveat(run));
  for (const Fact& fact : FourFacts(evidence)) *verdict.add_facts() = fact;
  return verdict;
}

bool PromiseBroken(const VerdictInfo& verdict) {
  const std::span<const Rule> promises = PromiseRules();
  return std::any_of(promises.begin(), promises.end(),
                     [&](const Rule& rule) { return verdict.rule() == rule.name; });
}

std::vector<std::string> RuleNames() {
  std::vector<std::string> names;
  for (const Rule& rule : AllRules()) names.emplace_back(rule.name);
  return names;
}

}  // namespace lockstep
