#include "experiments/analyse/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/analyse/aggregate.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Config;
using synthetic::Files;
using synthetic::FilesOf;
using synthetic::kGradientBytes;
using synthetic::ReaderOf;
using synthetic::Shape;
using ::testing::DoubleNear;
using ::testing::Optional;

TEST(FormulaFor, RingMovesTwiceItsShareEachWay) {
  const auto formula =
      FormulaFor({.mode = "all_reduce", .algorithm = "ring", .workers = 4, .gradient_bytes = 1000});
  ASSERT_THAT(formula, IsOk());
  EXPECT_EQ(formula->worker, 1500);
  EXPECT_EQ(formula->worker_text, "2(n-1)/n S");
  EXPECT_FALSE(formula->server.has_value());
  const auto alone =
      FormulaFor({.mode = "all_reduce", .algorithm = "ring", .workers = 1, .gradient_bytes = 1000});
  EXPECT_EQ(alone->worker, 0);
}

TEST(FormulaFor, EachServerMovesItsShardForEveryWorker) {
  const auto formula = FormulaFor(
      {.mode = "ps_sync", .algorithm = "", .workers = 4, .servers = 2, .gradient_bytes = 1000});
  ASSERT_THAT(formula, IsOk());
  EXPECT_EQ(formula->worker, 1000);
  EXPECT_THAT(formula->server, Optional(2000));
  EXPECT_EQ(formula->server_text, "n S / s");
}

TEST(FormulaFor, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(FormulaFor({.mode = "all_reduce", .algorithm = "tree", .workers = 4}),
              StatusIs(absl::StatusCode::kInvalidArgument, "'tree'"));
  EXPECT_THAT(FormulaFor({.mode = "ps_sync", .algorithm = "", .workers = 4, .servers = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, "0 servers"));
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
}

INSTANTIATE_TEST_SUITE_P(
    All, CountedBytes,
    ::testing::Values(
        Way{"none", {.variant = "none"}, 0, 0, ""},
        Way{"ring", {.variant = "ring"}, 1.5 * kGradientBytes, 1.5 * kGradientBytes, "worker 0"},
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
  for (const int steps : {1, 3, 20}) {
    const auto result =
        Aggregate({synthetic::Run({.variant = "ps_sync", .servers = 2, .steps = steps})}, nullptr);
    ASSERT_THAT(result, IsOk());
    EXPECT_DOUBLE_EQ(result->bytes().server_in_per_step(), 2.0 * kGradientBytes) << steps;
    EXPECT_DOUBLE_EQ(result->bytes().server_out_per_step(), 2.0 * kGradientBytes) << steps;
    EXPECT_DOUBLE_EQ(result->bytes().server_formula(), 2.0 * kGradientBytes) << steps;
    // 4 workers x (1,000 start-up + 50 after the last step) + 2 servers x 2,000.
    EXPECT_DOUBLE_EQ(result->bytes().set_up(), 4 * 1'050 + 2 * 2'000) << steps;
  }
}

TEST(CountedBytes, TheBusiestDirectionOfAllProcessesIsNamed) {
  const Shape shape = {.variant = "ring"};
  Files files = FilesOf(shape);
  for (Record& record : files[{"worker", 2}]) {
    if (record.has_step()) record.mutable_step()->mutable_traffic()->set_sent_bytes(999'999);
  }
  const auto result = Aggregate({MergeRun(Config(shape), ReaderOf(files))}, nullptr);
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
