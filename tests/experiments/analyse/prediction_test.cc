#include "experiments/analyse/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allreduce/schedule/cost.h"
#include "experiments/analyse/aggregate.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::RunWith;

constexpr double kAlphaNs = 10'000;
constexpr double kGamma = 0.5;
constexpr double kBytes = 400'000;  // beta is 1 ns a byte: S beta is 400 us

PredictionInput Input(const char* mode, const char* algorithm, int workers, int servers) {
  return {.way = {.mode = mode,
                  .algorithm = algorithm,
                  .workers = workers,
                  .servers = servers,
                  .gradient_bytes = kBytes},
          .alpha_ns = kAlphaNs,
          .beta_ns_per_byte = 1,
          .gamma_ns_per_byte = kGamma};
}

struct Case {
  const char* name;
  PredictionInput input;
  double us;
  const char* formula;
};
class Predicted : public ::testing::TestWithParam<Case> {};

TEST_P(Predicted, IsTheClosedForm) {
  const auto predicted = PredictExchange(GetParam().input);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_NEAR(predicted->exchange_us, GetParam().us, 1e-9);
  EXPECT_EQ(predicted->formula, GetParam().formula);
}

PredictionInput WithBuckets(PredictionInput input, int buckets) {
  input.buckets = buckets;
  return input;
}
INSTANTIATE_TEST_SUITE_P(
    All, Predicted,
    ::testing::Values(Case{"ps_sync", Input("ps_sync", "", 4, 2), 2 * 10 + 2 * 2 * 400 + 2 * 200,
                           "2 alpha + 2 max(1, n/s) S beta + n/s S gamma"},
                      // A push a bucket, one reply a step.
                      Case{"ps_sync_3_buckets", WithBuckets(Input("ps_sync", "", 4, 2), 3),
                           4 * 10 + 2 * 2 * 400 + 2 * 200,
                           "4 alpha + 2 max(1, n/s) S beta + n/s S gamma"},
                      // The links of the workers, not the servers', are the narrow ones.
                      Case{"more_servers_than_workers", Input("ps_sync", "", 2, 4),
                           2 * 10 + 2 * 400 + 0.5 * 200,
                           "2 alpha + 2 max(1, n/s) S beta + n/s S gamma"},
                      Case{"ps_async", Input("ps_async", "", 4, 2), 2 * 10 + 2 * 400 + 0.5 * 200,
                           "2 alpha + 2 S beta + S/s gamma, servers' links not full"}),
    [](const auto& test) { return std::string(test.param.name); });

// The prediction of a collective is the schedule's own closed form, bucket by bucket.
class OfACollective : public ::testing::TestWithParam<const char*> {
 protected:
  static PredictionInput Collective() {
    const std::string name = GetParam();
    return Input("all_reduce", GetParam(), 4, name == "ps_exchange" ? 2 : 0);
  }
  static double FormUs(const PredictionInput& input, int64_t bytes) {
    const auto spec = ScheduleSpecOf(input.way);
    EXPECT_THAT(spec, IsOk());
    const auto form = ClosedFormOf(*spec,
                                   {.latency_ns = input.alpha_ns,
                                    .beta_ns_per_byte = input.beta_ns_per_byte,
                                    .gamma_ns_per_byte = input.gamma_ns_per_byte},
                                   bytes, input.chunk_bytes);
    return form ? form->time_ns / 1e3 : -1;
  }
};

TEST_P(OfACollective, IsItsClosedForm) {
  PredictionInput input = Collective();
  const double one = PredictExchange(input)->exchange_us;
  EXPECT_DOUBLE_EQ(one, FormUs(input, 400'000));
  input.buckets = 4;
  const auto four = PredictExchange(input);
  EXPECT_DOUBLE_EQ(four->exchange_us, 4 * FormUs(input, 100'000));
  EXPECT_THAT(four->formula, ::testing::EndsWith("; for each of 4 buckets"));
  input.chunk_bytes = 10'000;  // the tiles are the form's business, too
  EXPECT_DOUBLE_EQ(PredictExchange(input)->exchange_us, 4 * FormUs(input, 100'000));
}

TEST_P(OfACollective, ExactAddsTheExponents) {
  PredictionInput input = Collective();
  input.way.exact = true;
  const auto exact = PredictExchange(input);
  // 100,000 elements of 8 bytes, 98 blocks of 4 bytes for each 1,024 of them.
  EXPECT_DOUBLE_EQ(exact->exchange_us, FormUs(input, 800'391) + FormUs(input, 4 * 98));
  EXPECT_THAT(exact->formula, ::testing::EndsWith("; again for the exponents"));
}

INSTANTIATE_TEST_SUITE_P(All, OfACollective,
                         ::testing::Values("naive", "star", "ring", "tree", "double_tree",
                                           "halving_doubling", "recursive_doubling", "direct",
                                           "hierarchical", "ps_exchange"),
                         [](const auto& test) { return std::string(test.param); });

TEST(PredictExchange, TakesTheFastestForAuto) {
  const auto predicted = PredictExchange(Input("all_reduce", "auto", 4, 0));
  ASSERT_TRUE(predicted.has_value());
  for (const char* other : {"ring", "tree", "halving_doubling"}) {
    EXPECT_LE(predicted->exchange_us,
              PredictExchange(Input("all_reduce", other, 4, 0))->exchange_us);
  }
}

TEST(PredictExchange, HasNothingToSayWhereNothingIsExchanged) {
  EXPECT_FALSE(PredictExchange(Input("none", "", 4, 0)).has_value());
  EXPECT_FALSE(PredictExchange(Input("all_reduce", "pyramid", 4, 0)).has_value());
  EXPECT_FALSE(PredictExchange(Input("ps_sync", "", 4, 0)).has_value());
}

// CASES.md R59, on every way: half the bandwidth takes twice the time of a large message, twice the
// latency twice the time of a tiny one.
class Scaling : public ::testing::TestWithParam<const char*> {};

TEST_P(Scaling, FollowsBandwidthAndLatency) {
  const std::string way = GetParam();
  PredictionInput input = way == "ps_sync" || way == "ps_async"
                              ? Input(way.c_str(), "", 4, 2)
                              : Input("all_reduce", way.c_str(), 4, way == "ps_exchange" ? 2 : 0);
  input.gamma_ns_per_byte = 0;
  input.chunk_bytes = int64_t{1} << 40;
  input.way.gradient_bytes = 1e10;
  const double large = PredictExchange(input)->exchange_us;
  input.beta_ns_per_byte *= 2;
  EXPECT_NEAR(PredictExchange(input)->exchange_us / large, 2, 0.05);
  input.way.gradient_bytes = 8;
  const double tiny = PredictExchange(input)->exchange_us;
  input.alpha_ns *= 2;
  EXPECT_NEAR(PredictExchange(input)->exchange_us / tiny, 2, 0.05);
}

INSTANTIATE_TEST_SUITE_P(All, Scaling,
                         ::testing::Values("naive", "ring", "tree", "halving_doubling",
                                           "ps_exchange", "ps_sync", "ps_async"),
                         [](const auto& test) { return std::string(test.param); });

TEST(AggregatePrediction, TakesTheMediansOfAllRuns) {
  std::vector<RunRecord> runs;
  for (const int block : {0, 1, 2}) {
    runs.push_back(RunWith({.variant = "ring", .block = block}, [&](Files* files) {
      auto* link = (*files)[{"worker", 0}][1].mutable_set_up()->mutable_link();
      link->set_alpha_ns(block == 2 ? 1e9 : 10'000 + block * 2'000);  // one block was disturbed
      link->set_samples(100);
      link->set_link("tcp");
    }));
  }
  const auto result = Aggregate(runs, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_DOUBLE_EQ(result->prediction().link().alpha_ns(), 12'000);
  EXPECT_EQ(result->prediction().link().samples(), 300);
  EXPECT_EQ(result->prediction().link().link(), "tcp");
  EXPECT_NEAR(result->prediction().exchange_us(), 6 * 12 + 1.5 * 400 + 0.75 * 200, 1e-9);
}

TEST(AggregatePrediction, IsAbsentWhereNothingWasMeasured) {
  const auto none = Aggregate({synthetic::Run({.variant = "none"})}, nullptr);
  EXPECT_FALSE(none->has_prediction());
  const auto ring = Aggregate({RunWith({.variant = "ring"},
                                       [](Files* files) {
                                         (*files)[{"worker", 0}][1].mutable_set_up()->clear_link();
                                       })},
                              nullptr);
  EXPECT_FALSE(ring->has_prediction());
}

}  // namespace
}  // namespace lockstep
