#include "experiments/analyse/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "experiments/analyse/aggregate.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::ForSteps;
using synthetic::kGradientBytes;
using synthetic::RunWith;
using synthetic::Shape;
using ::testing::DoubleNear;
using ::testing::Optional;

struct FormulaCase {
  const char* name;
  ByteFormulaInput input;
  double worker;
  const char* worker_text;
  double busiest;
  const char* busiest_text;
  double server = 0;
};
class Formula : public ::testing::TestWithParam<FormulaCase> {};

TEST_P(Formula, IsThatOfTheWay) {
  const FormulaCase& want = GetParam();
  const auto formula = FormulaFor(want.input);
  ASSERT_THAT(formula, IsOk());
  EXPECT_DOUBLE_EQ(formula->worker, want.worker);
  EXPECT_EQ(formula->worker_text, want.worker_text);
  EXPECT_DOUBLE_EQ(formula->busiest, want.busiest);
  EXPECT_EQ(formula->busiest_text, want.busiest_text);
  EXPECT_EQ(formula->server.has_value(), want.server > 0);
  EXPECT_DOUBLE_EQ(formula->server.value_or(0), want.server);
}

ByteFormulaInput Collective(const char* algorithm, int workers, double bytes = 1'000) {
  return {
      .mode = "all_reduce", .algorithm = algorithm, .workers = workers, .gradient_bytes = bytes};
}
ByteFormulaInput Servers(const char* mode, const char* algorithm, int workers, int servers) {
  return {.mode = mode,
          .algorithm = algorithm,
          .workers = workers,
          .servers = servers,
          .gradient_bytes = 1'000};
}
ByteFormulaInput Exact(ByteFormulaInput input, int element_bytes) {
  input.exact = true;
  input.element_bytes = element_bytes;
  return input;
}
constexpr double kExactBytes = 1'000 * (8 + 4 / 1024.0) / 4;  // of 250 f32 elements

INSTANTIATE_TEST_SUITE_P(
    All, Formula,
    ::testing::Values(
        FormulaCase{"none", {.mode = "none", .workers = 4, .gradient_bytes = 9}, 0, "0", 0, "0"},
        FormulaCase{"naive", Collective("naive", 4), 3'000, "(n-1) S", 3'000, "(n-1) S"},
        FormulaCase{"ring", Collective("ring", 4), 1'500, "2(n-1)/n S", 1'500, "2(n-1)/n S"},
        FormulaCase{"ring_alone", Collective("ring", 1), 0, "2(n-1)/n S", 0, "2(n-1)/n S"},
        FormulaCase{"tree_2", Collective("tree", 2), 1'000, "2(n-1)/n S", 1'000,
                    "1 S, one to each neighbour"},
        FormulaCase{"tree_4", Collective("tree", 4), 1'500, "2(n-1)/n S", 2'000,
                    "2 S, one to each neighbour"},
        FormulaCase{"tree_5", Collective("tree", 5), 1'600, "2(n-1)/n S", 3'000,
                    "3 S, one to each neighbour"},
        FormulaCase{"tree_alone", Collective("tree", 1), 0, "2(n-1)/n S", 0,
                    "0 S, one to each neighbour"},
        FormulaCase{"star", Collective("star", 4), 1'500, "2(n-1)/n S", 3'000, "(n-1) S"},
        FormulaCase{"halving_doubling", Collective("halving_doubling", 4), 1'500, "2(n-1)/n S",
                    1'500, "2(n-1)/n S"},
        FormulaCase{"direct", Collective("direct", 3), 4'000 / 3.0, "2(n-1)/n S", 4'000 / 3.0,
                    "2(n-1)/n S"},
        FormulaCase{"recursive_doubling", Collective("recursive_doubling", 4), 2'000, "2 S", 2'000,
                    "2 S"},
        FormulaCase{"hierarchical", Collective("hierarchical", 4), 1'500, "2(n-1)/n S", 1'500,
                    "2(n-1)/n S"},
        FormulaCase{"ps_sync", Servers("ps_sync", "", 4, 2), 1'000, "S", 2'000, "n S / s", 2'000},
        FormulaCase{"ps_async", Servers("ps_async", "", 4, 1), 1'000, "S", 4'000, "n S / s", 4'000},
        FormulaCase{"more_servers_than_workers", Servers("ps_sync", "", 2, 4), 1'000, "S", 1'000,
                    "S", 500},
        FormulaCase{"ps_exchange", Servers("all_reduce", "ps_exchange", 3, 2), 1'000, "S", 1'500,
                    "n S / s", 1'500},
        FormulaCase{"ring_exact", Exact(Collective("ring", 4), 4), 1.5 * kExactBytes,
                    "2(n-1)/n S, S at 8 B an element", 1.5 * kExactBytes,
                    "2(n-1)/n S, S at 8 B an element"},
        // 2 bytes an element become 8: four times the bytes.
        FormulaCase{"naive_exact_f16", Exact(Collective("naive", 3, 500), 2), 2 * kExactBytes,
                    "(n-1) S, S at 8 B an element", 2 * kExactBytes,
                    "(n-1) S, S at 8 B an element"},
        FormulaCase{"ps_exchange_exact", Exact(Servers("all_reduce", "ps_exchange", 4, 2), 4),
                    kExactBytes, "S, S at 8 B an element", 2 * kExactBytes,
                    "n S / s, S at 8 B an element", 2 * kExactBytes},
        // The server quantises: nothing more on the wire.
        FormulaCase{"ps_sync_exact", Exact(Servers("ps_sync", "", 4, 2), 4), 1'000, "S", 2'000,
                    "n S / s", 2'000}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(FormulaFor, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(FormulaFor(Collective("pyramid", 4)),
              StatusIs(absl::StatusCode::kInvalidArgument, "'pyramid'"));
  EXPECT_THAT(FormulaFor(Servers("ps_sync", "", 4, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument, "0 servers"));
  EXPECT_THAT(FormulaFor(Collective("ring", 0)),
              StatusIs(absl::StatusCode::kInvalidArgument, "0 workers"));
}

// What the moves of the tree's schedule add up to is what its header says.
TEST(FormulaFor, CountsTheTreesNeighbours) {
  for (int n = 1; n <= 33; ++n) {
    int64_t most = 0;
    for (int rank = 0; rank < n; ++rank) most = std::max(most, synthetic::Neighbours(n, rank));
    const auto formula = FormulaFor(Collective("tree", n));
    ASSERT_THAT(formula, IsOk());
    EXPECT_NEAR(formula->worker, 2'000.0 * (n - 1) / n, 1e-6) << n;
    EXPECT_NEAR(formula->busiest, 1'000.0 * static_cast<double>(most), 1e-6) << n;
  }
}

struct Way {
  const char* name;
  Shape shape;
  double formula;
  double busiest;
  const char* node;
};

class CountedBytes : public ::testing::TestWithParam<Way> {};

TEST_P(CountedBytes, StandBesideTheFormula) {
  const Way& way = GetParam();
  const auto result = Aggregate({synthetic::Run(way.shape)}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_DOUBLE_EQ(result->bytes().tx_per_worker_step(), way.formula);
  EXPECT_DOUBLE_EQ(result->bytes().rx_per_worker_step(), way.formula);
  EXPECT_DOUBLE_EQ(result->bytes().formula(), way.formula);
  EXPECT_EQ(result->busiest().node(), way.node);
  EXPECT_DOUBLE_EQ(result->busiest().bytes_per_step(), way.busiest);
  EXPECT_DOUBLE_EQ(result->busiest().formula(), way.busiest);
  EXPECT_EQ(result->busiest().formula_text().empty(), way.busiest == 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, CountedBytes,
    ::testing::Values(
        Way{"none", {.variant = "none"}, 0, 0, ""},
        Way{"ring", {.variant = "ring"}, 1.5 * kGradientBytes, 1.5 * kGradientBytes, "worker 0"},
        Way{"naive", {.variant = "naive"}, 3.0 * kGradientBytes, 3.0 * kGradientBytes, "worker 0"},
        Way{"tree", {.variant = "tree"}, 1.5 * kGradientBytes, 2.0 * kGradientBytes, "worker 0"},
        Way{"ps_async",
            {.variant = "ps_async", .servers = 2},
            kGradientBytes,
            2.0 * kGradientBytes,
            "server 0"},
        Way{"ps_schedule",
            {.variant = "ps_schedule", .servers = 2},
            kGradientBytes,
            2.0 * kGradientBytes,
            "server 0"},
        Way{"ps",
            {.variant = "ps_sync", .servers = 2},
            kGradientBytes,
            2.0 * kGradientBytes,
            "server 0"},
        Way{"ps_short",
            {.variant = "ps_sync", .servers = 1, .steps = 3},
            kGradientBytes,
            4.0 * kGradientBytes,
            "server 0"},
        Way{"ps_one_step",
            {.variant = "ps_sync", .servers = 1, .steps = 1},
            kGradientBytes,
            4.0 * kGradientBytes,
            "server 0"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(CountedBytes, ServerCountsBothWays) {
  for (const auto& [variant, steps] : std::vector<std::pair<const char*, int>>{
           {"ps_sync", 1}, {"ps_sync", 3}, {"ps_sync", 20}, {"ps_async", 20}, {"ps_schedule", 3}}) {
    const auto result =
        Aggregate({synthetic::Run({.variant = variant, .servers = 2, .steps = steps})}, nullptr);
    ASSERT_THAT(result, IsOk());
    EXPECT_DOUBLE_EQ(result->bytes().server_in_per_step(), 2.0 * kGradientBytes) << steps;
    EXPECT_DOUBLE_EQ(result->bytes().server_out_per_step(), 2.0 * kGradientBytes) << steps;
    EXPECT_DOUBLE_EQ(result->bytes().server_formula(), 2.0 * kGradientBytes) << steps;
    // 4 workers x (1,000 start-up + 50 after the last step) + 2 servers x 2,000.
    EXPECT_DOUBLE_EQ(result->bytes().set_up(), 4 * 1'050 + 2 * 2'000) << steps;
  }
}

TEST(CountedBytes, TheBusiestDirectionOfAllProcessesIsNamed) {
  const auto result = Aggregate({RunWith({.variant = "ring"},
                                         [](Files* files) {
                                           ForSteps(files, 2, [](StepDone* step) {
                                             step->mutable_traffic()->set_sent_bytes(999'999);
                                           });
                                         })},
                                nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->busiest().node(), "worker 2");
  EXPECT_EQ(result->busiest().direction(), "out");
  EXPECT_DOUBLE_EQ(result->busiest().bytes_per_step(), 999'999);
}

TEST(CountedOverFormula, IsARatioWhereThereIsAFormula) {
  BytesResult bytes;
  bytes.set_tx_per_worker_step(1'010);
  bytes.set_rx_per_worker_step(990);
  bytes.set_formula(1'000);
  ByteRatios ratios = CountedOverFormula(bytes);
  EXPECT_THAT(ratios.worker_sent, Optional(DoubleNear(1.01, 1e-12)));
  EXPECT_THAT(ratios.worker_received, Optional(DoubleNear(0.99, 1e-12)));
  EXPECT_FALSE(ratios.server_in.has_value());
  bytes.set_server_in_per_step(2'020);
  bytes.set_server_formula(2'000);
  ratios = CountedOverFormula(bytes);
  EXPECT_THAT(ratios.server_in, Optional(DoubleNear(1.01, 1e-12)));
  EXPECT_FALSE(ratios.server_out.has_value());
  bytes.set_formula(0);
  EXPECT_FALSE(CountedOverFormula(bytes).worker_sent.has_value());
}

}  // namespace
}  // namespace lockstep
