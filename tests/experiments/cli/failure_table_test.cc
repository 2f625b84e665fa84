// The rows of `lockstep faults` from records whose every number is known.
#include "experiments/cli/failure_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr int kSteps = 60;
constexpr int kStrikeStep = 20;
constexpr int64_t kStepMs = 10;
constexpr int64_t kStrikeNs = kStrikeStep * kStepMs * kMs + kMs / 2;

FailureCase CaseOf(const std::string& role, Fault::Kind kind) {
  FailureCase failure;
  failure.config.mutable_experiment()->mutable_train()->set_steps(kSteps);
  failure.config.mutable_variant()->mutable_ps()->set_mode(Ps::ASYNC);
  failure.config.set_world_size(3);
  failure.config.set_servers(2);
  failure.id = "async";
  failure.role = role;
  failure.index = 1;
  failure.kind = kind;
  failure.step = kStrikeStep;
  return failure;
}

// Step i starts at i - 1 times the pause, `shift_ms` later.
Record StepRecord(int step, int64_t step_ms, int64_t shift_ms, int samples) {
  Record record;
  StepDone* done = record.mutable_step();
  done->set_step(step);
  done->set_start_ns(((step - 1) * step_ms + shift_ms) * kMs);
  done->set_compute_ns(step_ms * kMs / 2);
  done->set_sync_ns(step_ms * kMs / 2);
  done->set_samples(samples);
  record.set_time_ns(done->start_ns() + step_ms * kMs);
  return record;
}

Record EndedRecord(int64_t time_ns, int code, const std::string& message) {
  Record record;
  record.set_time_ns(time_ns);
  record.mutable_ended()->set_code(code);
  record.mutable_ended()->set_message(message);
  return record;
}

// Three workers of 8 samples each 10 ms, until the strike.
StruckRun UntilTheStrike() {
  StruckRun run;
  run.strike_ns = kStrikeNs;
  for (int rank = 0; rank < 3; ++rank) {
    run.workers.push_back({absl::StrCat("worker ", rank), {}});
    for (int step = 1; step <= kStrikeStep; ++step) {
      run.workers.back().records.push_back(StepRecord(step, kStepMs, 0, 8));
    }
  }
  run.servers = {{"server 0", {}}, {"server 1", {}}};
  return run;
}

TEST(JudgeFailureTest, AStopNamesWhomTheSummaryNamesAndWhenTheFirstSurvivorKnew) {
  StruckRun run = UntilTheStrike();
  run.exit_code = 3;
  run.workers[0].records.push_back(EndedRecord(kStrikeNs + 7 * kMs, 14, "worker 0, pull: gone"));
  run.workers[2].records.push_back(EndedRecord(kStrikeNs + 5 * kMs, 14, "worker 2, pull: gone"));
  run.file.emplace();
  run.file->add_failures()->set_member("server 1");
  const FailureRow row = JudgeFailure(CaseOf("server", Fault::KILL), run);
  EXPECT_EQ(row.outcome(), "stopped");
  EXPECT_EQ(row.target(), "server 1");
  EXPECT_EQ(row.named(), "server 1");
  EXPECT_EQ(row.exit_code(), 3);
  EXPECT_DOUBLE_EQ(row.detected_ms(), 5);
  EXPECT_NEAR(row.samples_per_s_before(), 3 * 8 / 0.01, 1e-6);
  EXPECT_NEAR(row.others_steps_per_s_before(), 100, 1e-6);
  EXPECT_FALSE(row.has_samples_per_s_after());
  EXPECT_FALSE(row.has_recovered_ms());
  EXPECT_FALSE(BreaksPromise(row));
}

// The struck member's own last word, when it wakes at the end, is no survivor's.
TEST(JudgeFailureTest, TheStruckMemberIsNoWitness) {
  StruckRun run = UntilTheStrike();
  run.exit_code = 3;
  run.workers[1].records.push_back(EndedRecord(kStrikeNs + kMs, 4, "silent"));
  run.workers[0].records.push_back(EndedRecord(kStrikeNs + 9 * kMs, 4, "missing: rank 1."));
  const FailureRow row = JudgeFailure(CaseOf("worker", Fault::FREEZE), run);
  EXPECT_DOUBLE_EQ(row.detected_ms(), 9);
  EXPECT_EQ(row.named(), "worker 1");
}

// CASES R33: the others' rate within 10 %, the whole run's a third less.
TEST(JudgeFailureTest, ARunThatGoesOnHasARateAfterwards) {
  StruckRun run = UntilTheStrike();
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    for (int step = kStrikeStep + 1; step <= kSteps; ++step) {
      run.workers[rank].records.push_back(StepRecord(step, kStepMs, 1, 8));
    }
    run.workers[rank].records.push_back(EndedRecord(2'000 * kMs, 0, ""));
  }
  const FailureRow row = JudgeFailure(CaseOf("worker", Fault::KILL), run);
  EXPECT_EQ(row.outcome(), "went on");
  EXPECT_EQ(row.named(), "");
  EXPECT_FALSE(row.has_detected_ms());
  EXPECT_NEAR(row.samples_per_s_after(), 2 * 8 / 0.01, 1e-6);
  EXPECT_NEAR(row.others_steps_per_s_after() / row.others_steps_per_s_before(), 1, 1e-9);
}

TEST(JudgeFailureTest, ARebuiltRunCountsFromTheLastSurvivorsReturn) {
  StruckRun run = UntilTheStrike();
  for (size_t rank = 0; rank < 3; ++rank) {
    Record record;
    record.set_time_ns(kStrikeNs + (100 + static_cast<int64_t>(rank)) * kMs);
    record.mutable_rebuilt()->set_epoch(2);
    if (rank != 1) record.mutable_rebuilt()->set_broken_ns(kStrikeNs + 4 * kMs);
    record.mutable_rebuilt()->set_cause("all_reduce #9 failed on rank 0. lost: rank 1.");
    run.workers[rank].records.push_back(record);
    for (int step = kStrikeStep; step <= kSteps; ++step) {  // the last one again
      run.workers[rank].records.push_back(StepRecord(step, 2 * kStepMs, 500, 8));
    }
  }
  const FailureRow row = JudgeFailure(CaseOf("worker", Fault::KILL), run);
  EXPECT_EQ(row.outcome(), "rebuilt");
  EXPECT_EQ(row.named(), "worker 1");
  EXPECT_DOUBLE_EQ(row.detected_ms(), 4);
  EXPECT_DOUBLE_EQ(row.recovered_ms(), 102);
  EXPECT_NEAR(row.samples_per_s_after(), 3 * 8 / 0.02, 1e-6);
  EXPECT_NEAR(row.others_steps_per_s_after(), 50, 1e-6);
}

// Servers of a later epoch say so too.
TEST(JudgeFailureTest, RecoveredServersAreARebuiltRun) {
  StruckRun run = UntilTheStrike();
  Record record;
  record.set_time_ns(kStrikeNs + 80 * kMs);
  record.mutable_recovered()->set_broken_ns(kStrikeNs + 3 * kMs);
  record.mutable_recovered()->set_cause("server 1 is lost (was killed by SIGKILL)");
  run.servers[0].records.push_back(record);
  const FailureRow row = JudgeFailure(CaseOf("server", Fault::KILL), run);
  EXPECT_EQ(row.outcome(), "rebuilt");
  EXPECT_EQ(row.named(), "server 1");
  EXPECT_DOUBLE_EQ(row.detected_ms(), 3);
  EXPECT_DOUBLE_EQ(row.recovered_ms(), 80);
}

TEST(JudgeFailureTest, AHangAndAWrongNameBreakAPromise) {
  StruckRun run = UntilTheStrike();
  run.hung = true;
  FailureRow row = JudgeFailure(CaseOf("worker", Fault::FREEZE), run);
  EXPECT_EQ(row.outcome(), "hung");
  EXPECT_TRUE(BreaksPromise(row));
  run.hung = false;
  run.exit_code = 3;
  run.file.emplace();
  run.file->add_failures()->set_member("worker 2");
  row = JudgeFailure(CaseOf("worker", Fault::FREEZE), run);
  EXPECT_TRUE(BreaksPromise(row));
  row = JudgeFailure(CaseOf(kCoordinatorRole, Fault::FREEZE), run);
  EXPECT_FALSE(BreaksPromise(row));
}

TEST(FailureTableTest, FitsTheTerminalAndReadsBackAsJson) {
  FailureFile file;
  FailureRow* row = file.add_rows();
  row->set_variant("a_variant_with_a_very_long_name_indeed");
  row->set_kind("FREEZE");
  row->set_target("worker 12");
  row->set_outcome("rebuilt");
  row->set_exit_code(143);
  row->set_named("worker 12");
  row->set_detected_ms(1501.25);
  row->set_recovered_ms(16543.2);
  row->set_samples_per_s_before(123456);
  row->set_samples_per_s_after(654321);
  row->set_others_steps_per_s_before(100);
  row->set_others_steps_per_s_after(97);
  file.add_rows()->set_variant("nothing");
  const std::string table = FailureTable(file);
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(table, '\n'))) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  for (const char* part : {"FREEZE w12", "rebuilt", "143", "97 %", "1501", "-/-"}) {
    EXPECT_THAT(table, HasSubstr(part));
  }
  const auto json = ToJson(file, kFailureJson);
  ASSERT_THAT(json, IsOk());
  FailureFile read;
  EXPECT_THAT(FromJson(*json, kFailureJson, &read), IsOk());
  EXPECT_EQ(read.rows(0).named(), "worker 12");
  EXPECT_FALSE(read.rows(1).has_detected_ms());
}

TEST(FailureCasesTest, EveryRoleThatThereIsIsStruckBothWays) {
  Experiment experiment;
  experiment.mutable_train()->add_seeds(1);
  experiment.mutable_train()->add_seeds(2);
  experiment.set_blocks(3);
  for (const int workers : {2, 5}) experiment.add_workers(workers);
  Variant* ps = experiment.add_variant();
  ps->set_name("ps");
  ps->mutable_ps()->add_servers(3);
  Variant* ring = experiment.add_variant();
  ring->set_name("ring");
  ring->mutable_all_reduce();
  std::vector<std::string> texts;
  for (const FailureCase& failure : FailureCases(experiment, 7)) {
    texts.push_back(
        absl::StrCat(failure.id, " ", Fault::Kind_Name(failure.kind), " ", failure.Target()));
  }
  EXPECT_THAT(texts,
              testing::UnorderedElementsAre(
                  "ps-n2 KILL server 1", "ps-n2 FREEZE server 1", "ps-n2 KILL worker 1",
                  "ps-n2 FREEZE worker 1", "ps-n2 KILL coordinator", "ps-n2 FREEZE coordinator",
                  "ps-n5 KILL server 1", "ps-n5 FREEZE server 1", "ps-n5 KILL worker 2",
                  "ps-n5 FREEZE worker 2", "ps-n5 KILL coordinator", "ps-n5 FREEZE coordinator",
                  "ring-n2 KILL worker 1", "ring-n2 FREEZE worker 1", "ring-n2 KILL coordinator",
                  "ring-n2 FREEZE coordinator", "ring-n5 KILL worker 2", "ring-n5 FREEZE worker 2",
                  "ring-n5 KILL coordinator", "ring-n5 FREEZE coordinator"));
}

}  // namespace
}  // namespace lockstep
