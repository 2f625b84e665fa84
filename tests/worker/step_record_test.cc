#include "worker/step_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/member/process.h"

namespace lockstep {
namespace {

struct TraceCase {
  std::string name;
  int steps = 0;
  int traced = 0;
  int block = 0;
  int64_t from = 0;
  int64_t until = 0;
};
class TraceTest : public testing::TestWithParam<TraceCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, TraceTest,
                         testing::Values(TraceCase{"AfterFiveStepsOfWarmUp", 60, 10, 0, 6, 16},
                                         TraceCase{"ShortRunsWarmUpLess", 20, 3, 0, 3, 6},
                                         TraceCase{"TinyRunsNotAtAll", 5, 2, 0, 1, 3},
                                         TraceCase{"LaterBlocksAreNotTraced", 60, 10, 1, 0, 0},
                                         TraceCase{"NoneAsked", 60, 0, 0, 6, 6}),
                         [](const auto& test) { return test.param.name; });

TEST_P(TraceTest, Steps) {
  RunConfig run;
  run.set_block(GetParam().block);
  run.mutable_experiment()->mutable_train()->set_steps(GetParam().steps);
  run.mutable_experiment()->mutable_trace()->set_steps(GetParam().traced);
  const TracedSteps traced = TracedStepsOf(run);
  EXPECT_EQ(traced.from, GetParam().from);
  EXPECT_EQ(traced.until, GetParam().until);
}

TEST(StepRecordTest, SpansAndMessagesKeepTheirOrder) {
  StepDone done;
  AddSpans({{.bucket = 0, .start_ns = 1, .end_ns = 2}, {kFinishSpan, 3, 4}}, &done);
  ASSERT_EQ(done.exchange_size(), 2);
  EXPECT_EQ(done.exchange(1).bucket(), -1);
  EXPECT_EQ(done.exchange(1).end_ns(), 4);
  AddMessages({{.peer = 2,
                .channel = 1,
                .sequence = 9,
                .sent = true,
                .start_ns = 5,
                .end_ns = 6,
                .bytes = 7}},
              &done);
  EXPECT_EQ(done.message(0).ShortDebugString(),
            "peer: 2 channel: 1 sequence: 9 sent: true start_ns: 5 end_ns: 6 bytes: 7");
}

// Only rank 0 has measured; it adds what a fold costs.
TEST(StepRecordTest, SetUpHasALinkWhereOneWasMeasured) {
  const MonotonicClock clock;
  Synchronizer::SetUpFacts facts;
  facts.addition_order = "exact";
  EXPECT_FALSE(SetUpRecord(facts, {}, clock).has_link());
  facts.link = LinkCost{
      .alpha_ns = 20'000, .beta_ns_per_byte = 0.25, .link = "tcp", .large_bytes = 8, .samples = 3};
  const lockstep::SetUp set_up = SetUpRecord(facts, {.sent_bytes = 5}, clock);
  EXPECT_EQ(set_up.addition_order(), "exact");
  EXPECT_EQ(set_up.traffic().sent_bytes(), 5);
  EXPECT_EQ(set_up.link().alpha_ns(), 20'000);
  EXPECT_EQ(set_up.link().beta_ns_per_byte(), 0.25);
  EXPECT_GT(set_up.link().gamma_ns_per_byte(), 0);
}

struct SgdCase {
  std::string name;
  ReduceOpSpec reduce_op = MEAN;
  bool none = false;
  bool async = false;
  Ps::Rate rate = Ps::OVER_WORKERS;
  float divisor = 0;
  float learning_rate = 0;
};
class SgdTest : public testing::TestWithParam<SgdCase> {};
INSTANTIATE_TEST_SUITE_P(
    Cases, SgdTest,
    testing::Values(SgdCase{"MeanOverWorkers", MEAN, false, false, Ps::OVER_WORKERS, 4, 0.5F},
                    SgdCase{"Sum", SUM, false, false, Ps::OVER_WORKERS, 1, 0.5F},
                    SgdCase{"NoneIsAlone", MEAN, true, false, Ps::OVER_WORKERS, 1, 0.5F},
                    SgdCase{"AsyncDividesTheRate", MEAN, false, true, Ps::OVER_WORKERS, 1, 0.125F},
                    SgdCase{"AsyncAtFullRate", MEAN, false, true, Ps::FULL, 1, 0.5F}),
    [](const auto& test) { return test.param.name; });

TEST_P(SgdTest, DivisorAndRate) {
  Experiment experiment;
  experiment.set_reduce_op(GetParam().reduce_op);
  experiment.mutable_train()->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
  Variant variant;
  if (GetParam().none) {
    variant.mutable_none();
  } else {
    variant.mutable_ps()->set_mode(GetParam().async ? Ps::ASYNC : Ps::SYNC);
    variant.mutable_ps()->set_rate(GetParam().rate);
  }
  const OptimizerOptions sgd = OptimizerFrom(experiment, variant, 4);
  EXPECT_EQ(sgd.divisor, GetParam().divisor);
  EXPECT_EQ(sgd.learning_rate, GetParam().learning_rate);
}

}  // namespace
}  // namespace lockstep
