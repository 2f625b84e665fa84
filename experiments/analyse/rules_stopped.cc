// The run did not reach its end: who caused it, when, and what was finished before.
#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/rules.h"
#include "experiments/analyse/verdict.h"

namespace lockstep {
namespace {

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

// Of a call check's explanation, which goes on with a line for each rank: the report has them all.
std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

RuleText StoppedText(const Evidence& evidence) {
  const FailureInfo* cause = FirstCause(evidence.run);
  RuleText text;
  if (cause == nullptr) {
    text.head = "Stopped: the run ended early and no member reported why";
    text.why = {FinishedClaim(evidence), FinishedBlocks(evidence.run)};
    return text;
  }
  text.head = StoppedHead(*cause);
  text.why = {IsWait(*cause) ? Capitalised(cause->message()) : FirstLine(cause->message()),
              OthersStopped(evidence.run, cause), FinishedBlocks(evidence.run)};
  return text;
}

bool IsAborted(const Evidence& evidence) { return evidence.run.state() == "aborted"; }

RuleText AbortedText(const Evidence& evidence) {
  const FailureInfo* cause = FirstCause(evidence.run);
  return {
      .head = absl::StrCat("Stopped before the end by an interrupt: ",
                           Counted(evidence.run.experiment().blocks(), "block"), " finished"),
      .why = {cause == nullptr ? "" : cause->message(), absl::StrJoin(HeldClaims(evidence), "; ")}};
}

constexpr std::array<Rule, 2> kRules = {{
    {kRuleStopped, IsStopped, StoppedText},
    {kRuleAborted, IsAborted, AbortedText},
}};

}  // namespace

std::span<const Rule> StoppedRules() { return kRules; }

}  // namespace lockstep
