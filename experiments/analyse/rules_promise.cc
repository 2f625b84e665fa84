// A promise was broken: replicas, repeats, bits or updates are not what the way guarantees.
#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/analyse/bits.h"
#include "experiments/analyse/format.h"
#include "experiments/analyse/rules.h"
#include "experiments/analyse/verdict.h"

namespace lockstep {
namespace {

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

// Nothing is promised where every worker began from its own values.
bool PromisesEquality(const Evidence& evidence) { return !evidence.run.experiment().own_start(); }

bool ReplicasDiffer(const Evidence& evidence) {
  return PromisesEquality(evidence) && EarliestDifference(evidence) != nullptr;
}

RuleText ReplicasDifferText(const Evidence& evidence) {
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

RuleText RepeatsDifferText(const Evidence& evidence) {
  return {.head = absl::StrCat("Runs do not repeat: ", NotRepeated(evidence)->id(),
                               " ended with other bits in another block of the same seed"),
          .why = {"Equal seed, data order and sum order promise equal bits on one machine",
                  absl::StrJoin(HeldClaims(evidence), "; ")}};
}

bool BitsDiffer(const Evidence& evidence) {
  return PromisesEquality(evidence) && FindBitsConflict(evidence.run).has_value();
}

std::string BitsOf(const VariantResult& variant) {
  constexpr size_t kHashChars = 8;  // enough to see that two differ
  return absl::StrCat(variant.id(), " ended with ", variant.final_hash().substr(0, kHashChars));
}

RuleText BitsDifferText(const Evidence& evidence) {
  const BitsConflict conflict = *FindBitsConflict(evidence.run);
  return {.head = absl::StrCat("Bits differ where they must agree: ", BitsOf(*conflict.first), ", ",
                               BitsOf(*conflict.second)),
          .why = {IsExact(evidence.run)
                      ? "EXACT sums do not depend on the order of additions, so every synchronous "
                        "way promises the same parameters"
                      : "Both make every sum by the same additions in the same order, which "
                        "promises the same parameters",
                  absl::StrJoin(HeldClaims(evidence), "; ")}};
}

const VariantResult* WithOtherUpdates(const Evidence& evidence) {
  for (const VariantResult& variant : evidence.run.runs()) {
    if (variant.complete() && variant.has_staleness() &&
        variant.staleness().applied() != variant.staleness().expected_applied()) {
      return &variant;
    }
  }
  return nullptr;
}

bool UpdatesDiffer(const Evidence& evidence) { return WithOtherUpdates(evidence) != nullptr; }

RuleText UpdatesDifferText(const Evidence& evidence) {
  const VariantResult& variant = *WithOtherUpdates(evidence);
  const StalenessResult& staleness = variant.staleness();
  const bool lost = staleness.applied() < staleness.expected_applied();
  return {.head = absl::StrCat("Updates were ", lost ? "lost" : "doubled", ": ", variant.id(),
                               " applied ", StepNumber(staleness.applied()), " instead of ",
                               StepNumber(staleness.expected_applied())),
          .why = {"Every worker's update of every step is promised to be applied once to every "
                  "shard",
                  absl::StrJoin(HeldClaims(evidence), "; ")}};
}

const VariantResult* BeyondItsBound(const Evidence& evidence) {
  for (const VariantResult& variant : evidence.run.runs()) {
    const StalenessResult& staleness = variant.staleness();
    if (staleness.has_bound() && staleness.clock_max() > staleness.bound()) return &variant;
  }
  return nullptr;
}

bool BoundBroken(const Evidence& evidence) { return BeyondItsBound(evidence) != nullptr; }

RuleText BoundBrokenText(const Evidence& evidence) {
  const VariantResult& variant = *BeyondItsBound(evidence);
  return {.head = absl::StrCat(
              "The bound was broken: a worker of ", variant.id(), " computed from parameters ",
              StepNumber(variant.staleness().clock_max()), " steps behind, allowed were ",
              StepNumber(variant.staleness().bound())),
          .why = {"BOUNDED promises that no worker begins a step before every other has finished "
                  "the one that many steps before it",
                  absl::StrJoin(HeldClaims(evidence), "; ")}};
}

constexpr std::array<Rule, 5> kRules = {{
    {kRuleReplicasDiffer, ReplicasDiffer, ReplicasDifferText},
    {kRuleRepeatsDiffer, RepeatsDiffer, RepeatsDifferText},
    {kRuleBitsDiffer, BitsDiffer, BitsDifferText},
    {kRuleUpdatesDiffer, UpdatesDiffer, UpdatesDifferText},
    {kRuleBoundBroken, BoundBroken, BoundBrokenText},
}};

}  // namespace

std::span<const Rule> PromiseRules() { return kRules; }

}  // namespace lockstep
