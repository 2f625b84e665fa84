#include "experiments/analyse/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/trace_tracks.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/experiments/analyse/trace_check.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::ForSteps;
using synthetic::kMs;
using synthetic::RunWith;
using synthetic::Shape;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_trace::CheckTrace;

// In every step rank r sends two messages to r + 1, under way at once (two slots), and receives
// two.
void AddMessages(const Shape& shape, Files* files) {
  for (int rank = 0; rank < shape.workers; ++rank) {
    const int next = (rank + 1) % shape.workers;
    const int prev = (rank + shape.workers - 1) % shape.workers;
    ForSteps(files, rank, [&](StepDone* step) {
      for (int i = 0; i < 2; ++i) {
        MessageSpan* send = step->add_message();
        send->set_peer(next);
        send->set_sent(true);
        send->set_sequence(2 * step->step() + i);
        send->set_start_ns(step->step() * 10 * kMs + (5 + i) * kMs);
        send->set_end_ns(send->start_ns() + 3 * kMs / 2);
        MessageSpan* receive = step->add_message();
        *receive = *send;
        receive->set_peer(prev);
        receive->set_sent(false);
        receive->set_start_ns(send->start_ns() - kMs);  // posted before anybody sends
        receive->set_bytes(100);
      }
    });
  }
}

RunRecord RingRun(Shape shape = {.variant = "ring"}) {
  return RunWith(shape, [&](Files* files) { AddMessages(shape, files); });
}

// The worker's own slices are three a step and its wait, and two calls; then two messages each way.
TEST(Trace, OfARingNestsAndPairs) {
  const auto facts = CheckTrace(TraceToJson({RingRun()}));
  ASSERT_THAT(facts, IsOk());
  EXPECT_THAT(facts->processes,
              ElementsAre("ring, 4 workers: worker 0", "ring, 4 workers: worker 1",
                          "ring, 4 workers: worker 2", "ring, 4 workers: worker 3"));
  EXPECT_THAT(facts->threads, Contains("ring, 4 workers: worker 2 / steps"));
  EXPECT_THAT(facts->threads, Contains("ring, 4 workers: worker 2 / exchange"));
  EXPECT_THAT(facts->threads, Contains("ring, 4 workers: worker 2 / out to worker 3"));
  EXPECT_THAT(facts->threads, Contains("ring, 4 workers: worker 2 / out to worker 3 (2)"));
  EXPECT_THAT(facts->threads, Contains("ring, 4 workers: worker 2 / in from worker 1"));
  EXPECT_EQ(facts->arrows, 4 * 10 * 2);
  EXPECT_EQ(facts->pairs, 4 * 10 * 2);
  EXPECT_EQ(facts->slices, 10 * (4 * (3 + 2 + 4) + 3));
  EXPECT_EQ(facts->first_us, 0);
}

TEST(Trace, NamesWhoWasWaitedFor) {
  const std::string json = TraceToJson({RingRun()});
  EXPECT_THAT(json, HasSubstr("\"wait for worker 3\""));
  EXPECT_THAT(json, Not(HasSubstr("\"wait for worker 2\"")));
  EXPECT_THAT(TraceToJson({synthetic::Run({.variant = "ps_async", .servers = 1})}),
              Not(HasSubstr("wait for")));
}

TEST(Trace, ShowsTheStepsAfterTheWarmUp) {
  RunRecord run = RingRun({.variant = "ring", .steps = 60});
  std::string json = TraceToJson({run});
  EXPECT_THAT(json, Not(HasSubstr("\"step 5\"")));
  EXPECT_THAT(json, HasSubstr("\"step 6\""));
  EXPECT_THAT(json, HasSubstr("\"step 15\""));
  EXPECT_THAT(json, Not(HasSubstr("\"step 16\"")));
  run.config.mutable_experiment()->mutable_trace()->set_steps(3);
  json = TraceToJson({run});
  EXPECT_THAT(json, HasSubstr("\"step 8\""));
  EXPECT_THAT(json, Not(HasSubstr("\"step 9\"")));
}

TEST(Trace, OfAParameterServerHasItsDirectionsAndWhatItApplied) {
  const auto run = RunWith({.variant = "ps_async", .servers = 1}, [](Files* files) {
    for (Record& record : (*files)[{"server", 0}]) {
      if (!record.has_applied()) continue;
      Applied* applied = record.mutable_applied();
      const int64_t start_ns = applied->step() * 10 * kMs + (4 + applied->worker()) * kMs;
      applied->set_apply_start_ns(start_ns);
      applied->set_apply_ns(kMs);
      applied->set_early_ns(7);
      PeerSpan* push = applied->add_push();
      push->set_worker(applied->worker());
      push->set_start_ns(start_ns - kMs);
      push->set_end_ns(start_ns);
      PeerSpan* reply = applied->add_reply();
      *reply = *push;
      reply->set_start_ns(start_ns + kMs);
      reply->set_end_ns(start_ns + 2 * kMs);
    }
  });
  const std::string json = TraceToJson({run});
  const auto facts = CheckTrace(json);
  ASSERT_THAT(facts, IsOk());
  EXPECT_THAT(facts->threads, Contains("ps_async, 4 workers: server 0 / in from worker 3"));
  EXPECT_THAT(facts->threads, Contains("ps_async, 4 workers: server 0 / out to worker 0"));
  EXPECT_THAT(facts->threads, Contains("ps_async, 4 workers: server 0 / fold and apply"));
  EXPECT_THAT(json, HasSubstr("\"apply step 7 of worker 2\""));
  EXPECT_THAT(json, HasSubstr("\"early_ns\":7"));
}

// Ranks of a schedule's servers follow the workers'.
TEST(Trace, AServerOfAScheduleIsARankLikeAnother) {
  const auto run = RunWith({.variant = "ps_schedule", .servers = 1}, [](Files* files) {
    const auto add = [](int peer, bool sent, StepDone* step) {
      MessageSpan* message = step->add_message();
      message->set_peer(peer);
      message->set_sent(sent);
      message->set_sequence(step->step());
      message->set_start_ns(step->step() * 10 * kMs + 5 * kMs);
      message->set_end_ns(step->step() * 10 * kMs + 6 * kMs);
    };
    ForSteps(files, 2, [&](StepDone* step) { add(4, true, step); });
    for (Record& record : (*files)[{"server", 0}]) {
      if (record.has_step()) add(2, false, record.mutable_step());
    }
  });
  const auto facts = CheckTrace(TraceToJson({run}));
  ASSERT_THAT(facts, IsOk());
  EXPECT_EQ(facts->arrows, 10);
  EXPECT_THAT(facts->threads, Contains("ps_schedule, 4 workers: worker 2 / out to server 0"));
  EXPECT_THAT(facts->threads, Contains("ps_schedule, 4 workers: server 0 / in from worker 2"));
}

TEST(Trace, HasTheFirstRunOfEachVariantAndSize) {
  std::vector<RunRecord> runs;
  for (const int block : {1, 0}) {
    for (const uint64_t seed : {7U, 3U}) {
      for (const int workers : {2, 4}) {
        runs.push_back(RunWith(
            {.variant = "ring", .workers = workers, .block = block, .seed = seed},
            [&](Files* files) {
              const bool first = block == 0 && seed == 3;
              ForSteps(files, 0, [&](StepDone* step) { step->set_samples(first ? 77 : 11); });
            }));
        runs.back().config.mutable_experiment()->mutable_train()->add_seeds(3);
        runs.back().config.mutable_experiment()->mutable_train()->add_seeds(7);
      }
    }
  }
  const std::string json = TraceToJson(runs);
  const auto facts = CheckTrace(json);
  ASSERT_THAT(facts, IsOk());
  EXPECT_EQ(facts->processes.size(), 2U + 4U);
  EXPECT_THAT(json, HasSubstr("\"samples\":77"));
  EXPECT_THAT(json, Not(HasSubstr("\"samples\":11")));
}

TEST(Trace, IsBoundedByWholeSteps) {
  const Shape shape = {.variant = "ring"};
  const auto run = RunWith(shape, [&](Files* files) {
    ForSteps(files, 0, [](StepDone* step) {
      for (int i = 0; i < 6'000; ++i) {
        MessageSpan* message = step->add_message();
        message->set_sequence(i);
        message->set_start_ns(step->start_ns() + i);
        message->set_end_ns(step->start_ns() + i + 1);
      }
    });
  });
  const std::string json = TraceToJson({run});
  const auto facts = CheckTrace(json);
  ASSERT_THAT(facts, IsOk());
  EXPECT_LE(facts->slices, static_cast<int>(kTraceSlicesMax));
  EXPECT_THAT(json, HasSubstr("\"left_out\":\"ring, 4 workers: steps 6 to 12\""));
}

// A cut or foreign record must not break the trace, and is no reason to stop.
TEST(Trace, OfAnUnfinishedRunIsStillOne) {
  const auto run = RunWith({.variant = "ring"}, [](Files* files) {
    AddMessages({.variant = "ring"}, files);
    (*files)[{"worker", 1}].resize(2 + 4);
    files->erase({"worker", 2});
    ForSteps(files, 0, [](StepDone* step) {
      step->set_backward_end_ns(0);
      step->mutable_exchange(0)->set_end_ns(0);
      step->mutable_exchange(1)->set_start_ns(step->exchange(1).start_ns() - 20 * kMs);
    });
  });
  EXPECT_THAT(CheckTrace(TraceToJson({run})), IsOk());
  EXPECT_THAT(CheckTrace(TraceToJson({})), IsOk());
}

TEST(Trace, HostileNamesStayText) {
  RunRecord run = RingRun();
  run.config.mutable_variant()->set_name("a\"b\\c\n</script>");
  const auto facts = CheckTrace(TraceToJson({run}));
  ASSERT_THAT(facts, IsOk());
  EXPECT_EQ(facts->processes[0], "a\"b\\c </script>, 4 workers: worker 0");
}

TEST(Trace, IsWrittenAsItIs) {
  const std::string path = ::testing::TempDir() + "/trace.json";
  ASSERT_THAT(WriteTrace(path, {RingRun()}), IsOk());
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, TraceToJson({RingRun()}));
}

// The checker must see what it is there for.
TraceSlice Message(TraceSlice::End end, int64_t start_ns, int64_t end_ns) {
  return {.name = end == TraceSlice::End::kSend ? "send #1" : "receive #1",
          .start_ns = start_ns,
          .end_ns = end_ns,
          .args = {{"sender", 0}, {"receiver", 1}, {"channel", 0}, {"sequence", 1}},
          .end = end,
          .message = {0, 1, 0, 1}};
}

TEST(TraceCheck, SeesAReceiveBeforeItsSendAndNoArrowLeadsThere) {
  const std::string json = TracksToJson(
      {{.processes = {{"x: 0", {{"out", {Message(TraceSlice::End::kSend, 500, 600)}}}},
                      {"x: 1", {{"in", {Message(TraceSlice::End::kReceive, 100, 400)}}}}}}});
  EXPECT_THAT(CheckTrace(json), StatusIs(absl::StatusCode::kInvalidArgument,
                                         "receive #1 ends before its send starts"));
  EXPECT_THAT(json, Not(HasSubstr("\"ph\":\"s\"")));
}

TEST(TraceCheck, SeesOverlapsAndLooseArrows) {
  const auto trace = [](const std::string& events) {
    return absl::StrCat("{\"traceEvents\":[", events, "]}");
  };
  const std::string name = R"({"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"t"}})";
  EXPECT_THAT(CheckTrace(trace(
                  name + R"(,{"ph":"X","pid":1,"tid":1,"ts":0,"dur":5,"name":"a","args":{}},)" +
                  R"({"ph":"X","pid":1,"tid":1,"ts":3,"dur":5,"name":"b","args":{}})")),
              StatusIs(absl::StatusCode::kInvalidArgument, "b overlaps a"));
  EXPECT_THAT(
      CheckTrace(trace(R"({"ph":"X","pid":1,"tid":2,"ts":0,"dur":5,"name":"a","args":{}})")),
      StatusIs(absl::StatusCode::kInvalidArgument, "has no name"));
  EXPECT_THAT(CheckTrace(trace(R"({"ph":"s","pid":1,"tid":1,"ts":4,"id":1},)"
                               R"({"ph":"f","pid":1,"tid":1,"ts":3,"id":1})")),
              StatusIs(absl::StatusCode::kInvalidArgument, "back in time"));
  EXPECT_THAT(CheckTrace(trace(R"({"ph":"s","pid":1,"tid":1,"ts":4,"id":1})")),
              StatusIs(absl::StatusCode::kInvalidArgument, "has no end"));
  EXPECT_THAT(CheckTrace("{"), StatusIs(absl::StatusCode::kInvalidArgument, "not JSON"));
}

}  // namespace
}  // namespace lockstep
