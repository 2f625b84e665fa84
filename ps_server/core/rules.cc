#include "ps_server/core/rules.h"

#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/fingerprint.h"
#include "base/status.h"

namespace lockstep {
namespace {

const char* NameOf(PsMode mode) {
  switch (mode) {
    case PsMode::kSync:
      return "SYNC";
    case PsMode::kAsync:
      return "ASYNC";
    case PsMode::kBounded:
      return "BOUNDED";
    case PsMode::kKOfN:
      return "K_OF_N";
  }
  return "no mode";
}

const char* NameOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kAdam:
      return "adam";
    case OptimizerKind::kAdamW:
      return "adamw";
  }
  return "no optimizer";
}

// An option that is set, and does not go with another one.
struct Conflict {
  bool present;
  std::string what;
  const char* why;
};

absl::Status FirstOf(const std::vector<Conflict>& conflicts) {
  for (const Conflict& conflict : conflicts) {
    if (!conflict.present) continue;
    return absl::InvalidArgumentError(absl::StrCat(conflict.what, ": ", conflict.why));
  }
  return absl::OkStatus();
}

absl::Status CheckMode(const PsRules& rules, int32_t world_size) {
  const std::string mode = absl::StrCat("mode ", NameOf(rules.mode));
  const bool sync = rules.mode == PsMode::kSync;
  const bool alone = AppliesAlone(rules.mode);
  const bool k_of_n = rules.mode == PsMode::kKOfN;
  const float divisor = rules.optimizer.divisor;
  return FirstOf({
      {NameOf(rules.mode)[0] == 'n', mode, "expected SYNC, ASYNC, BOUNDED or K_OF_N"},
      {!sync && rules.order == PsOrder::kExact, absl::StrCat(mode, " with reduction_order EXACT"),
       "which pushes an update is made of depends on time, so no order of sums makes its bits "
       "repeatable; use SYNC, or reduction_order RANK"},
      {alone && divisor != 1.0F, absl::StrCat(mode, " with a sum divided by ", divisor),
       "an update is one push alone, so there is no mean of workers; expected divisor 1"},
      {rules.staleness != 0 && rules.mode != PsMode::kBounded,
       absl::StrCat(mode, " with staleness ", rules.staleness), "only BOUNDED has a bound"},
      {rules.staleness < 0, absl::StrCat(mode, " with staleness ", rules.staleness),
       "expected 0 or more clocks"},
      {rules.k != 0 && !k_of_n, absl::StrCat(mode, " with k ", rules.k),
       "only K_OF_N takes the first k pushes"},
      {k_of_n && (rules.k < 1 || rules.k > world_size), absl::StrCat(mode, " with k ", rules.k),
       "expected 1 to the number of workers"},
      {rules.apply_late && !k_of_n, absl::StrCat(mode, " with late APPLY"),
       "only in K_OF_N can a push be late"},
      {rules.scale_by_staleness && !alone, absl::StrCat(mode, " with scale_by_staleness"),
       "only updates of ASYNC and BOUNDED have a staleness"},
      {rules.sum_only && !sync, absl::StrCat(mode, " with optimizer_on WORKER"),
       "workers that step by themselves need one sum of all; use SYNC, or optimizer_on SERVER"},
      {rules.steps < 0, absl::StrCat(rules.steps, " steps"), "expected 0 or more"},
  });
}

absl::Status CheckNumbers(const PsRules& rules) {
  const OptimizerOptions& o = rules.optimizer;
  const std::string name = NameOf(o.kind);
  const bool sgd = o.kind == OptimizerKind::kSgd;
  const bool narrow = rules.wire_dtype == Dtype::kF16 || rules.wire_dtype == Dtype::kBf16;
  const bool betas = o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1;
  return FirstOf({
      {rules.wire_dtype != Dtype::kF32 && !narrow,
       absl::StrCat("wire_dtype ", lockstep::NameOf(rules.wire_dtype)),
       "gradients travel to servers as f32, f16 or bf16"},
      {!std::isfinite(o.learning_rate) || o.learning_rate < 0,
       absl::StrCat(name, " with learning_rate ", o.learning_rate), "expected 0 or more"},
      {!std::isfinite(o.divisor) || o.divisor <= 0, absl::StrCat("divisor ", o.divisor),
       "expected more than 0"},
      {!sgd && o.momentum != 0, absl::StrCat(name, " with momentum ", o.momentum),
       "momentum is SGD's; use beta1"},
      {sgd && o.weight_decay != 0, absl::StrCat(name, " with weight_decay ", o.weight_decay),
       "only adam and adamw have one"},
      {!sgd && !betas, absl::StrCat(name, " with beta1 ", o.beta1, ", beta2 ", o.beta2),
       "expected both from 0 to below 1"},
      {!sgd && !(o.epsilon >= 0), absl::StrCat(name, " with epsilon ", o.epsilon),
       "expected 0 or more"},
  });
}

std::string DescribeMode(const PsRules& rules) {
  switch (rules.mode) {
    case PsMode::kSync:
      return absl::StrCat("sync, sums in ",
                          rules.order == PsOrder::kExact ? "exact order" : "rank order",
                          rules.sum_only ? ", optimizer on workers" : "");
    case PsMode::kAsync:
      return "async";
    case PsMode::kBounded:
      return absl::StrCat("bounded, staleness ", rules.staleness);
    case PsMode::kKOfN:
      return absl::StrCat("k_of_n, k ", rules.k, ", late pushes ",
                          rules.apply_late ? "applied" : "dropped");
  }
  return NameOf(rules.mode);
}

std::string DescribeOptimizer(const OptimizerOptions& o) {
  std::string text = absl::StrFormat("%s learning_rate %.9g", NameOf(o.kind), o.learning_rate);
  if (o.kind == OptimizerKind::kSgd) {
    absl::StrAppendFormat(&text, " momentum %.9g", o.momentum);
  } else {
    absl::StrAppendFormat(&text, " beta1 %.9g beta2 %.9g epsilon %.9g weight_decay %.9g", o.beta1,
                          o.beta2, o.epsilon, o.weight_decay);
  }
  return text;
}

}  // namespace

absl::Status CheckRules(const PsRules& rules, int32_t world_size) {
  RETURN_IF_ERROR(CheckMode(rules, world_size));
  return CheckNumbers(rules);
}

std::string Describe(const PsRules& rules) {
  return absl::StrFormat("%s, %s%s, %s%s, sum divided by %.9g", DescribeMode(rules),
                         lockstep::NameOf(rules.wire_dtype),
                         rules.steps > 0 ? absl::StrCat(", ", rules.steps, " steps") : "",
                         DescribeOptimizer(rules.optimizer),
                         rules.scale_by_staleness ? " scaled by staleness" : "",
                         rules.optimizer.divisor);
}

uint64_t FingerprintOf(const PsRules& rules) {
  const OptimizerOptions& o = rules.optimizer;
  const auto bits = [](float value) { return int64_t{std::bit_cast<int32_t>(value)}; };
  const std::vector<int64_t> words = {static_cast<int64_t>(rules.mode),
                                      static_cast<int64_t>(rules.order),
                                      rules.staleness,
                                      rules.k,
                                      rules.apply_late ? 1 : 0,
                                      rules.scale_by_staleness ? 1 : 0,
                                      rules.sum_only ? 1 : 0,
                                      rules.steps,
                                      static_cast<int64_t>(rules.wire_dtype),
                                      bits(o.learning_rate),
                                      bits(o.momentum),
                                      bits(o.divisor),
                                      static_cast<int64_t>(o.kind),
                                      bits(o.beta1),
                                      bits(o.beta2),
                                      bits(o.epsilon),
                                      bits(o.weight_decay)};
  return Fingerprint64(std::as_bytes(std::span(words)));
}

}  // namespace lockstep
