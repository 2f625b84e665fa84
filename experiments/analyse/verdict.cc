#include "experiments/analyse/verdict.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "experiments/analyse/claims.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/speed.h"

namespace lockstep {
namespace {

struct Text {
  std::string head;
  std::vector<std::string> why;  // sentences without their full stop; empty ones are dropped
};

struct Rule {
  const char* name;
  bool (*holds)(const Evidence& evidence);
  Text (*text)(const Evidence& evidence);
};

std::string Capitalised(std::string text) {
  if (!text.empty()) text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
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

// ---------------------------------------------------------------------------- stopped, aborted
const FailureInfo* FirstCause(const RunFile& run) {
  for (const FailureInfo& failure : run.failures()) {
    if (!failure.consequence()) return &failure;
  }
  return run.failures_size() > 0 ? &run.failures(0) : nullptr;
}

std::string FinishedBlocks(const RunFile& run) {
  return absl::StrCat("Finished before that: ", Counted(run.experiment().blocks(), "block"),
                      "; the numbers below are from what was recorded");
}

bool IsStopped(const Evidence& evidence) {
  return evidence.run.state() == "failed" ||
         (evidence.run.state() != "aborted" && evidence.run.failures_size() > 0);
}

// The cause may be a consequence too, of something that nobody reported.
std::string OthersStopped(const RunFile& run, const FailureInfo* cause) {
  const auto others = std::count_if(
      run.failures().begin(), run.failures().end(),
      [cause](const FailureInfo& failure) { return failure.consequence() && &failure != cause; });
  if (others == 0) return "";
  return absl::StrCat(Counted(static_cast<int>(others), "other member"), " stopped because of it");
}

// The coordinator's wait did not fail, whoever it waited for did.
bool IsWait(const FailureInfo& failure) {
  return failure.member() == "coordinator" && absl::StartsWith(failure.message(), "waiting for ");
}

std::string StoppedHead(const FailureInfo& cause) {
  if (IsWait(cause)) {
    // Up to the list of those present, which may be long; all of it stands in the reason.
    const std::string missing = cause.message().substr(0, cause.message().find(';'));
    return absl::StrCat("Stopped: ", missing, "; ",
                        cause.variant().empty()
                            ? "the run"
                            : absl::StrCat(cause.variant(), ", block ", cause.block()),
                        " did not begin");
  }
  const std::string when = cause.step() > 0 ? absl::StrCat(" at step ", StepNumber(cause.step()))
                                            : " before the first step";
  return absl::StrCat("Stopped: ", cause.member(), cause.lost() ? " was lost" : " failed", when,
                      cause.variant().empty()
                          ? ""
                          : absl::StrCat(" of ", cause.variant(), ", block ", cause.block()));
}

Text StoppedText(const Evidence& evidence) {
  const FailureInfo* cause = FirstCause(evidence.run);
  Text text;
  if (cause == nullptr) {
    text.head = "Stopped: the run ended early and no member reported why";
    text.why = {FinishedClaim(evidence), FinishedBlocks(evidence.run)};
    return text;
  }
  text.head = StoppedHead(*cause);
  text.why = {IsWait(*cause) ? Capitalised(cause->message()) : cause->message(),
              OthersStopped(evidence.run, cause), FinishedBlocks(evidence.run)};
  return text;
}

bool IsAborted(const Evidence& evidence) { return evidence.run.state() == "aborted"; }

Text AbortedText(const Evidence& evidence) {
  const FailureInfo* cause = FirstCause(evidence.run);
  return {
      .head = absl::StrCat("Stopped before the end by an interrupt: ",
                           Counted(evidence.run.experiment().blocks(), "block"), " finished"),
      .why = {cause == nullptr ? "" : cause->message(), absl::StrJoin(HeldClaims(evidence), "; ")}};
}

// ----------------------------------------------------------------------------- broken promises
const VariantResult* EarliestDifference(const Evidence& evidence) {
  const VariantResult* earliest = nullptr;
  for (const VariantResult& variant : evidence.run.runs()) {
    if (!IsSynchronous(variant) || variant.replicas().state() != "diverged") continue;
    if (earliest == nullptr ||
        variant.replicas().first_diff_step() < earliest->replicas().first_diff_step()) {
      earliest = &variant;
    }
  }
  return earliest;
}

bool ReplicasDiffer(const Evidence& evidence) { return EarliestDifference(evidence) != nullptr; }

Text ReplicasDifferText(const Evidence& evidence) {
  const VariantResult& variant = *EarliestDifference(evidence);
  const ReplicaResult& replicas = variant.replicas();
  std::string apart = "are not identical";
  if (replicas.max_rel().kind_case() == google::protobuf::Value::kNumberValue) {
    apart = absl::StrCat("are ", Percent(replicas.max_rel().number_value()), " apart");
  }
  return {.head = absl::StrCat("Replicas differ after step ",
                               StepNumber(replicas.first_diff_step()), ": the workers of ",
                               variant.id(), " ", apart, ", equality was promised"),
          .why = {"Speeds and losses below do not compare: a synchronous way has lost its "
                  "meaning once replicas differ",
                  replicas.max_rel_reason()}};
}

const VariantResult* NotRepeated(const Evidence& evidence) {
  if (evidence.run.experiment().blocks() < 2) return nullptr;
  for (const VariantResult& variant : evidence.run.runs()) {
    const bool known =
        IsSynchronous(variant) && variant.complete() && !variant.final_hash().empty();
    if (known && !variant.repeated_hash_equal()) return &variant;
  }
  return nullptr;
}

bool RepeatsDiffer(const Evidence& evidence) { return NotRepeated(evidence) != nullptr; }

Text RepeatsDifferText(const Evidence& evidence) {
  return {.head = absl::StrCat("Runs do not repeat: ", NotRepeated(evidence)->id(),
                               " ended with other bits in another block of the same seed"),
          .why = {"Equal seed, data order and sum order promise equal bits on one machine",
                  absl::StrJoin(HeldClaims(evidence), "; ")}};
}

// ------------------------------------------------------------------------------ speed withheld
bool CanCompare(const Evidence& evidence) { return evidence.compared.size() >= 2; }

// The most telling claims and the reason; the rest of what holds follows below the headline.
Text Withheld(const Evidence& evidence, const std::string& reason) {
  constexpr size_t kClaimsInHead = 2;  // a headline of three lines is read, one of six is not
  std::vector<std::string> head = HeldClaims(evidence);
  std::vector<std::string> rest;
  while (head.size() > kClaimsInHead) {
    rest.insert(rest.begin(), Capitalised(head.back()));
    head.pop_back();
  }
  head.push_back(reason);
  rest.insert(rest.end(), {FormulaClaim(evidence), HashClaim(evidence)});
  return {.head = absl::StrJoin(head, "; "), .why = rest};
}

bool IsCpuBound(const Evidence& evidence) {
  return CanCompare(evidence) && evidence.run.host().cpu_bound();
}

Text CpuBoundText(const Evidence& evidence) {
  const HostInfo& host = evidence.run.host();
  const std::string load =
      evidence.processes > host.cores()
          ? absl::StrCat(evidence.processes, " processes on ", Counted(host.cores(), "core"))
          : absl::StrCat("cores ", Percent(host.cpu_busy()), " busy");
  Text text = Withheld(evidence, absl::StrCat("speed: not decided on this host (", load, ")"));
  text.why.push_back(
      "Times on this host show its CPU; more cores or more hosts would decide the speed");
  return text;
}

bool HasTooFewBlocks(const Evidence& evidence) {
  return CanCompare(evidence) && evidence.speed.claim == Speed::kUndecided;
}

Text TooFewBlocksText(const Evidence& evidence) {
  Text text = Withheld(evidence, absl::StrCat("speed: not decided by ",
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
  return {IntervalText(evidence), absl::StrJoin(HeldClaims(evidence), "; "),
          FormulaClaim(evidence)};
}

template <Speed claim>
bool SpeedIs(const Evidence& evidence) {
  return evidence.speed.claim == claim;
}

Text FasterText(const Evidence& evidence) {
  const SpeedComparison& speed = evidence.speed;
  // Two digits would round 1.04 to 1.0, "1.0 x faster".
  const int digits = speed.interval.ratio < 1.1 ? 3 : 2;
  return {.head = absl::StrCat(speed.first->id(), " is ", Significant(speed.interval.ratio, digits),
                               " x faster than ", speed.second->id(), AtWorkers(evidence),
                               Preliminary(evidence)),
          .why = SpeedWhy(evidence)};
}

Text EqualText(const Evidence& evidence) {
  const SpeedComparison& speed = evidence.speed;
  return {
      .head = absl::StrCat(speed.first->id(), " and ", speed.second->id(), " are equal in practice",
                           AtWorkers(evidence), ": ", Percent(speed.interval.ratio - 1),
                           " apart in samples/s", Preliminary(evidence)),
      .why = SpeedWhy(evidence)};
}

Text NoClearWinnerText(const Evidence& evidence) {
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

Text NeutralText(const Evidence& evidence) { return Withheld(evidence, "nothing to compare with"); }

constexpr std::array<Rule, 10> kRules = {{
    {kRuleStopped, IsStopped, StoppedText},
    {kRuleAborted, IsAborted, AbortedText},
    {kRuleReplicasDiffer, ReplicasDiffer, ReplicasDifferText},
    {kRuleRepeatsDiffer, RepeatsDiffer, RepeatsDifferText},
    {kRuleCpuBound, IsCpuBound, CpuBoundText},
    {kRuleTooFewBlocks, HasTooFewBlocks, TooFewBlocksText},
    {kRuleFaster, SpeedIs<Speed::kFaster>, FasterText},
    {kRuleEqual, SpeedIs<Speed::kEqual>, EqualText},
    {kRuleNoClearWinner, SpeedIs<Speed::kUnclear>, NoClearWinnerText},
    {kRuleNeutral, Always, NeutralText},
}};

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

VerdictInfo Decide(const RunFile& run) {
  const Evidence evidence = CollectEvidence(run);
  const auto* const rule =
      std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) { return r.holds(evidence); });
  CHECK(rule != kRules.end()) << "the last rule holds always";
  const Text text = rule->text(evidence);
  VerdictInfo verdict;
  verdict.set_rule(rule->name);
  verdict.set_head(text.head);
  verdict.set_why(Sentences(text.why));
  verdict.set_caveat(Caveat(run));
  for (const Fact& fact : FourFacts(evidence)) *verdict.add_facts() = fact;
  return verdict;
}

bool PromiseBroken(const VerdictInfo& verdict) {
  return verdict.rule() == kRuleReplicasDiffer || verdict.rule() == kRuleRepeatsDiffer;
}

std::vector<std::string> RuleNames() {
  std::vector<std::string> names;
  names.reserve(kRules.size());
  for (const Rule& rule : kRules) names.emplace_back(rule.name);
  return names;
}

}  // namespace lockstep
