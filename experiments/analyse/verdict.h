// verdict.h: the sentence at the top: a table of rules, the first whose guard holds speaks.
// A rule never says more than its guard has seen; every number in it comes from the run file; a
// headline is never a refusal alone. `none` is never ranked. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/record.pb.h"

namespace lockstep {

// In the order in which they are tried.
inline constexpr char kRuleStopped[] = "stopped";                 // a member failed or was lost
inline constexpr char kRuleAborted[] = "aborted";                 // interrupted by the user
inline constexpr char kRuleReplicasDiffer[] = "replicas_differ";  // where equality is promised
inline constexpr char kRuleRepeatsDiffer[] = "repeats_differ";    // same seed, other bits
inline constexpr char kRuleBitsDiffer[] = "bits_differ";          // same additions, or EXACT
inline constexpr char kRuleBoundBroken[] = "bound_broken";        // a read staler than allowed
inline constexpr char kRuleUpdatesDiffer[] = "updates_differ";    // asynchronous: lost or doubled
inline constexpr char kRuleOwnStart[] = "own_start";              // apart from the start, as asked
inline constexpr char kRuleCpuBound[] = "cpu_bound";              // facts that hold, speed withheld
inline constexpr char kRuleTooFewBlocks[] = "too_few_blocks";     // facts that hold, speed withheld
inline constexpr char kRuleFaster[] = "faster";
inline constexpr char kRuleEqual[] = "equal_in_practice";
inline constexpr char kRuleNoClearWinner[] = "no_clear_winner";
inline constexpr char kRuleNeutral[] = "neutral";  // nothing to compare

// `run.verdict` is not looked at. Always four facts.
VerdictInfo Decide(const RunFile& run);

// True when the verdict is that a promise was broken (exit code 1).
bool PromiseBroken(const VerdictInfo& verdict);

// The names above, in order.
std::vector<std::string> RuleNames();

}  // namespace lockstep
