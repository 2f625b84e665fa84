// Who is faster, or, where that cannot be told, the facts that hold all the same and the reason.
#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/rules.h"
#include "experiments/analyse/speed.h"
#include "experiments/analyse/verdict.h"

namespace lockstep {
namespace {

bool CanCompare(const Evidence& evidence) { return evidence.compared.size() >= 2; }

// A name stays as it is, whatever stands at the beginning.
std::string AsSentence(const Evidence& evidence, const std::string& claim) {
  const auto& runs = evidence.run.runs();
  const bool named = std::any_of(runs.begin(), runs.end(), [&](const VariantResult& variant) {
    return absl::StartsWith(claim, variant.id());
  });
  return named ? claim : Capitalised(claim);
}

// The most telling claims and the reason; the rest of what holds follows below the headline.
RuleText Withheld(const Evidence& evidence, const std::string& reason) {
  constexpr size_t kClaimsInHead = 2;  // a headline of three lines is read, one of six is not
  std::vector<std::string> head = HeldClaims(evidence);
  std::vector<std::string> rest;
  while (head.size() > kClaimsInHead) {
    rest.insert(rest.begin(), AsSentence(evidence, head.back()));
    head.pop_back();
  }
  head.push_back(reason);
  rest.insert(rest.end(), {FormulaClaim(evidence), HashClaim(evidence), LearningClaim(evidence),
                           PredictionClaim(evidence)});
  return {.head = absl::StrJoin(head, "; "), .why = rest};
}

bool HasOwnStart(const Evidence& evidence) { return evidence.run.experiment().own_start(); }

RuleText OwnStartText(const Evidence& evidence) {
  return {.head =
              "Every worker kept its own start values, as asked: no way can end with equal "
              "replicas but one that hands out parameters",
          .why = {"Equal sums of gradients move unequal copies by the same steps, so their "
                  "distance stays; a server's pull replaces the copies",
                  AsSentence(evidence, absl::StrJoin(HeldClaims(evidence), "; "))}};
}

bool IsCpuBound(const Evidence& evidence) {
  return CanCompare(evidence) && evidence.run.host().cpu_bound();
}

RuleText CpuBoundText(const Evidence& evidence) {
  const HostInfo& host = evidence.run.host();
  const std::string load =
      evidence.processes > host.cores()
          ? absl::StrCat(evidence.processes, " processes on ", Counted(host.cores(), "core"))
          : absl::StrCat("cores ", Percent(host.cpu_busy()), " busy");
  RuleText text = Withheld(evidence, absl::StrCat("speed: not decided on this host (", load, ")"));
  text.why.push_back(
      absl::StrCat("Times on this host show its CPU; ",
                   evidence.processes > host.cores()
                       ? absl::StrCat("one core a process (", evidence.processes, ")")
                       : "more cores",
                   " or more hosts would decide the speed"));
  return text;
}

bool HasTooFewBlocks(const Evidence& evidence) {
  return CanCompare(evidence) && evidence.speed.claim == Speed::kUndecided;
}

RuleText TooFewBlocksText(const Evidence& evidence) {
  RuleText text = Withheld(evidence, absl::StrCat("speed: not decided by ",
                                                  Counted(evidence.speed.blocks, "common block")));
  text.why.push_back("An interval needs at least two blocks, a sure one five");
  return text;
}

// -------------------------------------------------------------------------------- speed claims
std::string AtWorkers(const Evidence& evidence) {
  return absl::StrCat(" at ", Counted(evidence.speed.first->workers(), "worker"));
}

std::string Preliminary(const Evidence& evidence) {
  if (evidence.speed.blocks >= kSureBlocks) return "";
  return absl::StrCat(" (preliminary: ", Counted(evidence.speed.blocks, "block"), ")");
}

std::string IntervalText(const Evidence& evidence) {
  const RatioInterval& interval = evidence.speed.interval;
  return absl::StrCat("Over ", Counted(interval.n, "paired block"), " the ratio of samples/s is ",
                      Significant(interval.ratio, 3), " (",
                      Significant(100 * (1 - interval.alpha), 3), " % interval ",
                      Significant(interval.low, 3), " to ", Significant(interval.high, 3), ")");
}

std::vector<std::string> SpeedWhy(const Evidence& evidence) {
  return {IntervalText(evidence), AsSentence(evidence, absl::StrJoin(HeldClaims(evidence), "; ")),
          FormulaClaim(evidence), LearningClaim(evidence), PredictionClaim(evidence)};
}

template <Speed claim>
bool SpeedIs(const Evidence& evidence) {
  return evidence.speed.claim == claim;
}

RuleText FasterText(const Evidence& evidence) {
  const SpeedComparison& speed = evidence.speed;
  // Two digits would round 1.04 to 1.0, "1.0 x faster".
  const int digits = speed.interval.ratio < 1.1 ? 3 : 2;
  return {.head = absl::StrCat(speed.first->id(), " is ", Significant(speed.interval.ratio, digits),
                               " x faster than ", speed.second->id(), AtWorkers(evidence),
                               Preliminary(evidence)),
          .why = SpeedWhy(evidence)};
}

RuleText EqualText(const Evidence& evidence) {
  const SpeedComparison& speed = evidence.speed;
  return {
      .head = absl::StrCat(speed.first->id(), " and ", speed.second->id(), " are equal in practice",
                           AtWorkers(evidence), ": ", Percent(speed.interval.ratio - 1),
                           " apart in samples/s", Preliminary(evidence)),
      .why = SpeedWhy(evidence)};
}

RuleText NoClearWinnerText(const Evidence& evidence) {
  const SpeedComparison& speed = evidence.speed;
  return {
      .head = absl::StrCat("No clear winner", AtWorkers(evidence), ": ", speed.first->id(), " and ",
                           speed.second->id(), " are within noise", Preliminary(evidence)),
      .why = SpeedWhy(evidence)};
}

bool Always(const Evidence& evidence) {
  static_cast<void>(evidence);
  return true;
}

RuleText NeutralText(const Evidence& evidence) {
  return Withheld(evidence, "nothing to compare with");
}

constexpr std::array<Rule, 7> kRules = {{
    {kRuleOwnStart, HasOwnStart, OwnStartText},
    {kRuleCpuBound, IsCpuBound, CpuBoundText},
    {kRuleTooFewBlocks, HasTooFewBlocks, TooFewBlocksText},
    {kRuleFaster, SpeedIs<Speed::kFaster>, FasterText},
    {kRuleEqual, SpeedIs<Speed::kEqual>, EqualText},
    {kRuleNoClearWinner, SpeedIs<Speed::kUnclear>, NoClearWinnerText},
    {kRuleNeutral, Always, NeutralText},
}};

}  // namespace

std::span<const Rule> SpeedRules() { return kRules; }

}  // namespace lockstep
