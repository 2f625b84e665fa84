#include "ps_server/core/rules.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ps_server/core/shard.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

PsRules Of(PsMode mode) {
  PsRules rules;
  rules.mode = mode;
  rules.optimizer.divisor = AppliesAlone(mode) ? 1.0F : 4.0F;
  if (mode == PsMode::kBounded) rules.staleness = 2;
  if (mode == PsMode::kKOfN) rules.k = 3;
  return rules;
}

TEST(Rules, EveryModeHasRulesThatAreRight) {
  for (const PsMode mode : {PsMode::kSync, PsMode::kAsync, PsMode::kBounded, PsMode::kKOfN}) {
    EXPECT_THAT(CheckRules(Of(mode), 4), IsOk()) << static_cast<int>(mode);
  }
}

struct Conflict {
  PsMode mode;
  std::function<void(PsRules*)> change;
  std::string named;
};

// R41: refused before start, naming the options that conflict.
TEST(Rules, WhatMakesNoSenseTogetherIsNamed) {
  const std::vector<Conflict> conflicts = {
      {PsMode::kAsync, [](PsRules* r) { r->order = PsOrder::kExact; },
       "mode ASYNC with reduction_order EXACT"},
      {PsMode::kBounded, [](PsRules* r) { r->order = PsOrder::kExact; },
       "mode BOUNDED with reduction_order EXACT"},
      {PsMode::kKOfN, [](PsRules* r) { r->order = PsOrder::kExact; },
       "mode K_OF_N with reduction_order EXACT"},
      {PsMode::kAsync, [](PsRules* r) { r->optimizer.divisor = 4; },
       "mode ASYNC with a sum divided by 4"},
      {PsMode::kBounded, [](PsRules* r) { r->optimizer.divisor = 4; },
       "mode BOUNDED with a sum divided by 4"},
      {PsMode::kSync, [](PsRules* r) { r->staleness = 1; }, "mode SYNC with staleness 1"},
      {PsMode::kAsync, [](PsRules* r) { r->staleness = 1; }, "mode ASYNC with staleness 1"},
      {PsMode::kBounded, [](PsRules* r) { r->staleness = -1; }, "mode BOUNDED with staleness -1"},
      {PsMode::kSync, [](PsRules* r) { r->k = 3; }, "mode SYNC with k 3"},
      {PsMode::kKOfN, [](PsRules* r) { r->k = 0; }, "mode K_OF_N with k 0"},
      {PsMode::kKOfN, [](PsRules* r) { r->k = 5; }, "mode K_OF_N with k 5"},
      {PsMode::kSync, [](PsRules* r) { r->apply_late = true; }, "mode SYNC with late APPLY"},
      {PsMode::kSync, [](PsRules* r) { r->scale_by_staleness = true; },
       "mode SYNC with scale_by_staleness"},
      {PsMode::kKOfN, [](PsRules* r) { r->scale_by_staleness = true; },
       "mode K_OF_N with scale_by_staleness"},
      {PsMode::kAsync, [](PsRules* r) { r->sum_only = true; },
       "mode ASYNC with optimizer_on WORKER"},
      {PsMode::kKOfN, [](PsRules* r) { r->sum_only = true; },
       "mode K_OF_N with optimizer_on WORKER"},
      {PsMode::kSync, [](PsRules* r) { r->steps = -1; }, "-1 steps"},
      {PsMode::kSync, [](PsRules* r) { r->wire_dtype = Dtype::kI64; }, "wire_dtype i64"},
      {PsMode::kSync, [](PsRules* r) { r->wire_dtype = Dtype::kF64; }, "wire_dtype f64"},
      {PsMode::kSync,
       [](PsRules* r) { r->optimizer.learning_rate = std::numeric_limits<float>::infinity(); },
       "sgd with learning_rate inf"},
      {PsMode::kSync, [](PsRules* r) { r->optimizer.divisor = 0; }, "divisor 0"},
      {PsMode::kSync,
       [](PsRules* r) {
         r->optimizer.kind = OptimizerKind::kAdam;
         r->optimizer.momentum = 0.5F;
       },
       "adam with momentum 0.5"},
      {PsMode::kSync, [](PsRules* r) { r->optimizer.weight_decay = 0.5F; },
       "sgd with weight_decay 0.5"},
      {PsMode::kSync,
       [](PsRules* r) {
         r->optimizer.kind = OptimizerKind::kAdamW;
         r->optimizer.beta2 = 1;
       },
       "adamw with beta1 0.9, beta2 1"},
      {PsMode::kSync,
       [](PsRules* r) {
         r->optimizer.kind = OptimizerKind::kAdam;
         r->optimizer.epsilon = -1;
       },
       "adam with epsilon -1"},
      {static_cast<PsMode>(9), [](PsRules* /*r*/) {}, "expected SYNC, ASYNC, BOUNDED or K_OF_N"},
  };
  for (const Conflict& conflict : conflicts) {
    PsRules rules = Of(conflict.mode);
    conflict.change(&rules);
    EXPECT_THAT(CheckRules(rules, 4), StatusIs(StatusCode::kInvalidArgument, conflict.named));
    // No server starts with them either.
    const ShardOptions options = {.rules = rules,
                                  .shard = 6,
                                  .range = WholeTensor(8),
                                  .world_size = 4,
                                  .staged_bytes_max = 1 << 20};
    EXPECT_THAT(Shard::Create(options), StatusIs(StatusCode::kInvalidArgument, "shard 6: "));
  }
}

TEST(Rules, FingerprintSeesEveryField) {
  const PsRules base = Of(PsMode::kSync);
  const std::vector<std::function<void(PsRules*)>> changes = {
      [](PsRules* r) { r->mode = PsMode::kKOfN; },
      [](PsRules* r) { r->order = PsOrder::kExact; },
      [](PsRules* r) { r->staleness = 1; },
      [](PsRules* r) { r->k = 1; },
      [](PsRules* r) { r->apply_late = true; },
      [](PsRules* r) { r->scale_by_staleness = true; },
      [](PsRules* r) { r->sum_only = true; },
      [](PsRules* r) { r->steps = 7; },
      [](PsRules* r) { r->wire_dtype = Dtype::kF16; },
      [](PsRules* r) { r->optimizer.learning_rate = 0.5F; },
      [](PsRules* r) { r->optimizer.momentum = 0.5F; },
      [](PsRules* r) { r->optimizer.divisor = 0.5F; },
      [](PsRules* r) { r->optimizer.kind = OptimizerKind::kAdam; },
      [](PsRules* r) { r->optimizer.beta1 = 0.5F; },
      [](PsRules* r) { r->optimizer.beta2 = 0.5F; },
      [](PsRules* r) { r->optimizer.epsilon = 0.5F; },
      [](PsRules* r) { r->optimizer.weight_decay = 0.5F; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    PsRules other = base;
    changes[i](&other);
    EXPECT_NE(FingerprintOf(other), FingerprintOf(base)) << "field " << i;
    EXPECT_FALSE(other == base) << "field " << i;
  }
  EXPECT_EQ(FingerprintOf(PsRules(base)), FingerprintOf(base));
}

TEST(Rules, AreDescribedInFull) {
  EXPECT_EQ(Describe(Of(PsMode::kSync)),
            "sync, sums in rank order, f32, sgd learning_rate 0.100000001 momentum 0, sum divided "
            "by 4");
  PsRules rules = Of(PsMode::kBounded);
  rules.wire_dtype = Dtype::kBf16;
  rules.steps = 40;
  rules.scale_by_staleness = true;
  rules.optimizer.kind = OptimizerKind::kAdamW;
  rules.optimizer.weight_decay = 0.25F;
  EXPECT_EQ(Describe(rules),
            "bounded, staleness 2, bf16, 40 steps, adamw learning_rate 0.100000001 beta1 "
            "0.899999976 beta2 0.999000013 epsilon 9.99999994e-09 weight_decay 0.25 scaled by "
            "staleness, sum divided by 1");
  rules = Of(PsMode::kKOfN);
  rules.apply_late = true;
  EXPECT_EQ(Describe(rules).substr(0, 33), "k_of_n, k 3, late pushes applied,");
  rules = Of(PsMode::kSync);
  rules.sum_only = true;
  EXPECT_EQ(Describe(rules).substr(0, 46), "sync, sums in rank order, optimizer on workers");
}

}  // namespace
}  // namespace lockstep
