// Whole ranks (loop_ranks.h): what each does with its steps, and what the records say afterwards.
#include "worker/step_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/transport/tcp.h"
#include "base/status.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/loop_ranks.h"

namespace lockstep {
namespace {

constexpr int kBuckets = 2;  // bias, weight

std::vector<Case> Cases(const std::string& experiment) {
  return {{"naive", AllReduceVariant("NAIVE"), experiment},
          {"ring", AllReduceVariant("RING"), experiment},
          {"tree", AllReduceVariant("TREE"), experiment},
          {"exchange1", AllReduceVariant("PS_EXCHANGE", 1), experiment, 1},
          {"exchange2", AllReduceVariant("PS_EXCHANGE", 2), experiment, 2}};
}

void ExpectSteps(const RankResult& rank, bool trains) {
  const std::vector<StepDone> steps = StepsOf(rank);
  ASSERT_EQ(steps.size(), static_cast<size_t>(kSteps));
  for (size_t i = 0; i < steps.size(); ++i) {
    const StepDone& step = steps[i];
    const int64_t end_ns = step.start_ns() + step.compute_ns() + step.sync_ns();
    EXPECT_EQ(step.step(), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(step.samples(), trains ? 4 : 0);
    EXPECT_GT(step.traffic().sent_bytes(), 0);
    EXPECT_GE(step.start_ns(), i == 0 ? 0 : steps[i - 1].start_ns());
    EXPECT_GE(step.backward_end_ns(), step.start_ns());
    EXPECT_LE(step.backward_end_ns(), end_ns);
    ASSERT_EQ(step.exchange_size(), kBuckets + 1);
    for (int call = 0; call <= kBuckets; ++call) {
      const ExchangeSpan& span = step.exchange(call);
      EXPECT_EQ(span.bucket(), call < kBuckets ? call : kFinishSpan);
      EXPECT_GE(span.start_ns(), call == 0 ? step.start_ns() : step.exchange(call - 1).end_ns());
      EXPECT_GE(span.end_ns(), span.start_ns());
      EXPECT_LE(span.end_ns(), end_ns);
    }
    const bool traced = step.step() >= 2 && step.step() < 5;  // one step of warm-up, then 3
    EXPECT_EQ(step.message_size() > 0, traced) << "step " << step.step();
  }
}

TEST(StepLoopTest, ExactEndsWithOneHashUnderEveryCollective) {
  std::string hash;
  for (const Case& test : Cases("reduction_order: EXACT")) {
    SCOPED_TRACE(test.name);
    const std::vector<RankResult> ranks = RunAll(test);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const bool trains = rank < kWorkers;
      ASSERT_THAT(ranks[rank].status, IsOk());
      EXPECT_EQ(ranks[rank].heard_step, kSteps);
      ExpectSteps(ranks[rank], trains);
      if (hash.empty()) hash = FinalHash(ranks[rank]);
      EXPECT_EQ(FinalHash(ranks[rank]), trains ? hash : "") << "rank " << rank;
      EXPECT_EQ(ranks[rank].records.front().started().role(), trains ? "worker" : "server");
      EXPECT_TRUE(ranks[rank].records.back().has_ended());
    }
  }
  EXPECT_FALSE(hash.empty());
}

TEST(StepLoopTest, TheRecordSaysWhatIsTrainedAndHow) {
  const std::vector<RankResult> ranks =
      RunAll({"facts", AllReduceVariant("NAIVE"), "wire_dtype: F16 overlap: false"});
  for (const RankResult& rank : ranks) ASSERT_THAT(rank.status, IsOk());
  ExpectSteps(ranks[1], true);
  const Started& started = ranks[1].records.at(0).started();
  EXPECT_EQ(started.parameters(), 650);
  EXPECT_EQ(started.gradient_bytes(), 1300);
  EXPECT_EQ(started.buckets(), kBuckets);
  EXPECT_EQ(started.data_rule(),
            "of 1797 samples each epoch reads 1788, each once by one worker, and drops the last 9 "
            "of its order");
  const lockstep::SetUp& first = ranks[0].records.at(1).set_up();
  EXPECT_GT(first.link().alpha_ns(), 0);
  EXPECT_GT(first.link().gamma_ns_per_byte(), 0);
  EXPECT_EQ(first.link().link(), "tcp");
  EXPECT_EQ(first.addition_order(), "bucket 0: 0-9: (g0+g1)+g2\nbucket 1: 0-639: (g0+g1)+g2");
  EXPECT_FALSE(ranks[1].records.at(1).set_up().has_link());
}

// CASES R26.
TEST(StepLoopTest, WithoutTheBroadcastEachWorkerStartsFromItsOwnValues) {
  const auto start_hash = [](const RankResult& rank) {
    return rank.records.at(2).probed().parameters_hash();
  };
  const Case own = {"own", AllReduceVariant("RING"), "broadcast_start: false"};
  const std::vector<RankResult> apart = RunAll(own);
  for (const RankResult& rank : apart) ASSERT_THAT(rank.status, IsOk());
  EXPECT_NE(start_hash(apart[0]), start_hash(apart[1]));
  EXPECT_NE(start_hash(apart[1]), start_hash(apart[2]));
  EXPECT_NE(FinalHash(apart[0]), FinalHash(apart[1]));
  const std::vector<RankResult> equal = RunAll({"spread", AllReduceVariant("RING"), ""});
  EXPECT_EQ(start_hash(equal[0]), start_hash(equal[2]));
}

// The worker that was to hand its state over is lost while it does.
TEST(StepLoopTest, AReplacementThatTookNobodysStateHoldsNone) {
  Start start = StartOf({"replacement", AllReduceVariant("RING"), ""});
  start.set_epoch(2);
  start.set_step(5);
  start.mutable_run()->mutable_variant()->mutable_all_reduce()->set_on_loss(AllReduceSync::REPLACE);
  start.mutable_run()->set_world_size(2);
  std::vector<Listener> listeners;
  TcpGroup group;
  group.epoch = 2;
  group.token = "token";
  for (int rank = 0; rank < 2; ++rank) {
    absl::StatusOr<Listener> listener = Listen({"127.0.0.1", 0});
    ASSERT_THAT(listener, IsOk());
    MemberInfo* member = start.add_member();
    member->set_role(WORKER);
    member->set_index(rank);
    member->set_endpoint(listener->endpoint.ToString());
    group.endpoints.push_back(listener->endpoint);
    listeners.push_back(*std::move(listener));
  }
  const MonotonicClock clock;
  const Abort abort;
  std::thread lost([&] {
    EXPECT_THAT(ConnectTcpMesh(std::move(listeners[0]), group, Limits(), clock, abort), IsOk());
  });
  LoopContext context{.index = 1, .token = "token", .limits = {}, .clock = &clock};
  context.started = DescribeProcess("worker", 1, start.run());
  auto loop = MakeTrainer(start, std::move(context));
  ASSERT_THAT(loop, IsOk());
  const absl::Status connected = (*loop)->Connect(start, std::move(listeners[1]), abort);
  lost.join();
  EXPECT_THAT(connected, StatusIs(absl::StatusCode::kUnavailable, "hand-over"));
  (*loop)->LeaveGroup(connected);
  EXPECT_EQ((*loop)->step(), kNoState);
  const auto records = ReadMember(start.run().record_dir(), "worker", 1);
  ASSERT_THAT(records, IsOk());
  for (const Record& record : *records) EXPECT_FALSE(record.has_probed());
}

class NanTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Variants, NanTest, testing::ValuesIn([] {
      const std::string fault = "fault { kind: NAN_GRADIENT target: \"worker:1\" at { step: 3 } } ";
      std::vector<Case> cases = Cases(fault);
      cases.push_back({"none", "name: \"v\" none {}", fault});
      cases.push_back({"exact", AllReduceVariant("RING"), fault + "reduction_order: EXACT"});
      cases.push_back({"inline", AllReduceVariant("RING"), fault + "overlap: false"});
      return cases;
    }()),
    [](const auto& test) { return test.param.name; });

TEST_P(NanTest, StopsWithStepTensorAndRank) {
  Case test = GetParam();
  test.name = "nan_" + test.name;
  test.meets_after =
      2;  // whoever fails closes its links, also to those that are in the step before
  const std::vector<RankResult> ranks = RunAll(test);
  EXPECT_THAT(ranks[1].status,
              StatusIs(absl::StatusCode::kDataLoss,
                       "step 3: the gradient of linear0.weight is not finite (nan at element 0) "
                       "on worker 1"));
  EXPECT_EQ(ranks[1].records.back().ended().step(), 2);
  const bool synchronises = test.variant.find("none") == std::string::npos;
  for (const size_t rank : {0U, 2U}) {
    EXPECT_EQ(ranks[rank].status.ok(), !synchronises) << ranks[rank].status;
    EXPECT_EQ(StepsOf(ranks[rank]).size(), synchronises ? 2U : static_cast<size_t>(kSteps));
  }
  if (synchronises) {
    EXPECT_THAT(BlamedBy(ranks[0].status), testing::Contains("worker 1"));
  }
}

}  // namespace
}  // namespace lockstep
