// What a spec's words come to on both ends of a stream.
#include "ps_server/wire/rules_from_spec.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "base/check.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

RunConfig RunOf(const std::string& ps, const std::string& experiment = "") {
  RunConfig run;
  CHECK(google::protobuf::TextFormat::ParseFromString("name: \"v\" ps { " + ps + " }",
                                                      run.mutable_variant()));
  CHECK(google::protobuf::TextFormat::ParseFromString(
      "train { steps: 60 optimizer { sgd { learning_rate: 0.2 momentum: 0.9 } } } " + experiment,
      run.mutable_experiment()));
  run.set_world_size(4);
  return run;
}

struct RulesCase {
  const char* name;
  const char* ps;
  const char* experiment;
  PsRules expected;
};
void PrintTo(const RulesCase& row, std::ostream* out) { *out << row.name; }
class RulesTest : public testing::TestWithParam<RulesCase> {};

TEST_P(RulesTest, AreThoseThatTheSpecAsksFor) {
  const auto rules = PsRulesFrom(RunOf(GetParam().ps, GetParam().experiment));
  ASSERT_THAT(rules, IsOk());
  PsRules expected = GetParam().expected;
  expected.steps = 60;
  EXPECT_EQ(rules->optimizer, expected.optimizer);
  EXPECT_TRUE(*rules == expected);
}

constexpr OptimizerOptions kMean = {.learning_rate = 0.2F, .momentum = 0.9F, .divisor = 4};
constexpr OptimizerOptions kAlone = {.learning_rate = 0.05F, .momentum = 0.9F, .divisor = 1};

INSTANTIATE_TEST_SUITE_P(
    Rows, RulesTest,
    testing::Values(
        RulesCase{"Sync", "", "", {.optimizer = kMean}},
        RulesCase{"SyncExact",
                  "",
                  "reduction_order: EXACT",
                  {.order = PsOrder::kExact, .optimizer = kMean}},
        RulesCase{"SyncRank", "", "reduction_order: RANK", {.optimizer = kMean}},
        RulesCase{"OnWorkers", "optimizer_on: WORKER", "", {.sum_only = true, .optimizer = kMean}},
        RulesCase{"Bf16", "", "wire_dtype: BF16", {.wire_dtype = Dtype::kBf16, .optimizer = kMean}},
        RulesCase{"AsyncHasNoOrder",
                  "mode: ASYNC scale_by_staleness: true",
                  "reduction_order: EXACT",
                  {.mode = PsMode::kAsync, .scale_by_staleness = true, .optimizer = kAlone}},
        RulesCase{"Bounded",
                  "mode: BOUNDED staleness: 3",
                  "",
                  {.mode = PsMode::kBounded, .staleness = 3, .optimizer = kAlone}},
        RulesCase{"KOfN",
                  "mode: K_OF_N k: 3 late: APPLY",
                  "",
                  {.mode = PsMode::kKOfN, .k = 3, .apply_late = true, .optimizer = kMean}}),
    [](const auto& row) { return row.param.name; });

TEST(RulesFromSpecTest, AdamComesWithItsOwnFields) {
  RunConfig run = RunOf("");
  Adam* const adamw =
      run.mutable_experiment()->mutable_train()->mutable_optimizer()->mutable_adamw();
  adamw->set_beta1(0.8);
  adamw->set_weight_decay(0.1);
  const auto rules = PsRulesFrom(run);
  ASSERT_THAT(rules, IsOk());
  EXPECT_EQ(rules->optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(rules->optimizer.beta1, 0.8F);
  EXPECT_EQ(rules->optimizer.weight_decay, 0.1F);
}

TEST(RulesFromSpecTest, AWireThatServersDoNotSpeakIsRefused) {
  EXPECT_THAT(PsRulesFrom(RunOf("", "wire_dtype: F64")),
              StatusIs(StatusCode::kInvalidArgument, "wire_dtype F64: a parameter server speaks"));
}

TEST(RulesFromSpecTest, Placements) {
  EXPECT_EQ(PsPlacementFrom(RunOf("")), PsPlacement::kSplit);
  EXPECT_EQ(PsPlacementFrom(RunOf("placement: IN_TURN")), PsPlacement::kInTurn);
  EXPECT_EQ(PsPlacementFrom(RunOf("placement: BY_SIZE")), PsPlacement::kBySize);
}

}  // namespace
}  // namespace lockstep
