// Records of runs whose group was rebuilt: what was undone is left out, what was taken over has a
// place, a replacement goes on where its predecessor was, and a smaller group is no complete run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/experiments/analyse/synthetic.h"

namespace lockstep {
namespace {

using synthetic::Config;
using synthetic::Files;
using synthetic::FilesOf;
using synthetic::kMs;
using synthetic::RunWith;
using synthetic::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kRestart = 13;       // the group goes on after this step
constexpr int64_t kRebuiltMs = 5;  // when, since that step's start

Record RebuiltRecord(const Shape& shape, int world_size) {
  Record record;
  record.set_time_ns((kRestart * shape.period_ms + kRebuiltMs) * kMs);
  record.mutable_rebuilt()->set_epoch(2);
  record.mutable_rebuilt()->set_step(kRestart);
  record.mutable_rebuilt()->set_world_size(world_size);
  record.mutable_rebuilt()->set_broken_ns(1);
  return record;
}

// This worker's records up to `last`, its own rebuild, and what follows `kRestart`.
std::vector<Record> RedoneRecords(const Shape& shape, int rank, int last, int world_size) {
  std::vector<Record> records;
  const std::vector<Record> whole = synthetic::WorkerRecords(shape, rank);
  for (const Record& record : whole) {
    const bool late = record.has_ended() || (record.has_step() && record.step().step() > last) ||
                      (record.has_probed() && record.probed().step() > last);
    if (!late) records.push_back(record);
  }
  records.push_back(RebuiltRecord(shape, world_size));
  for (const Record& record : whole) {
    const bool again = record.has_ended() ||
                       (record.has_step() && record.step().step() > kRestart) ||
                       (record.has_probed() && record.probed().step() > kRestart);
    if (again) records.push_back(record);
  }
  return records;
}

const Shape kShape;

TEST(RebuiltRun, WhatWasUndoneIsLeftOut) {
  const RunRecord run = RunWith(kShape, [](Files* files) {
    for (int rank = 0; rank < 4; ++rank) {
      (*files)[{"worker", rank}] = RedoneRecords(kShape, rank, kRestart + 1 + rank % 2, 4);
    }
    // A probe of an undone step has other bits, and must not count.
    auto& records = (*files)[{"worker", 0}];
    const auto rebuilt = std::find_if(records.begin(), records.end(),
                                      [](const Record& record) { return record.has_rebuilt(); });
    records.insert(rebuilt, synthetic::ProbedRecord(kRestart + 1, "undone"));
  });
  EXPECT_TRUE(run.complete) << testing::PrintToString(run.problems);
  EXPECT_FALSE(run.shrank);
  for (const MemberRecord& worker : run.workers) {
    ASSERT_THAT(worker.steps, SizeIs(20));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(worker.steps[static_cast<size_t>(i)].step(), i + 1);
    ASSERT_THAT(worker.probes, SizeIs(2));
    EXPECT_EQ(worker.probes[0].parameters_hash(), "h10");
    EXPECT_EQ(worker.probes[1].parameters_hash(), "h20");
    ASSERT_THAT(worker.rebuilds, SizeIs(1));
    EXPECT_EQ(worker.rebuilds[0].step(), kRestart);
  }
}

// One that was behind took the state after step 13 from a peer: it has no such step of its own.
TEST(RebuiltRun, WhatWasTakenOverHasAPlaceButNoResult) {
  const RunRecord run = RunWith(kShape, [](Files* files) {
    for (int rank = 0; rank < 4; ++rank) {
      (*files)[{"worker", rank}] = RedoneRecords(kShape, rank, rank == 2 ? 11 : kRestart, 4);
    }
  });
  EXPECT_TRUE(run.complete) << testing::PrintToString(run.problems);
  const std::vector<StepDone>& steps = run.workers[2].steps;
  ASSERT_THAT(steps, SizeIs(20));
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(IsTakenOver(steps[i]), i + 1 == 12 || i + 1 == 13) << "step " << i + 1;
  }
  EXPECT_EQ(steps[11].start_ns(), EndNs(steps[10]));
  EXPECT_EQ(EndNs(steps[11]), (kRestart * kShape.period_ms + kRebuiltMs) * kMs);
  EXPECT_EQ(steps[12].samples(), 0);
  EXPECT_TRUE(std::isnan(steps[12].loss()));
}

TEST(RebuiltRun, AReplacementGoesOnWhereItsPredecessorWas) {
  const auto replace = [](Files* files) {
    for (int rank = 0; rank < 4; ++rank) {
      (*files)[{"worker", rank}] = RedoneRecords(kShape, rank, kRestart, 4);
    }
    auto& records = (*files)[{"worker", 1}];
    const auto rebuilt = std::find_if(records.begin(), records.end(),
                                      [](const Record& record) { return record.has_rebuilt(); });
    rebuilt->mutable_rebuilt()->set_broken_ns(0);
    // Its predecessor woke up when all was over, and ended with an error: nobody listened.
    std::vector<Record> between = {
        synthetic::EndedRecord(kRestart, 0, 9, "the run goes on without this process"),
        synthetic::StartedRecord(kShape, "worker", 1), synthetic::SetUpRecord(500)};
    records.insert(rebuilt, between.begin(), between.end());
  };
  RunRecord run = RunWith(kShape, replace);
  EXPECT_TRUE(run.complete) << testing::PrintToString(run.problems);
  const MemberRecord worker = run.workers[1];
  EXPECT_THAT(worker.steps, SizeIs(20));
  ASSERT_TRUE(worker.ended.has_value());
  EXPECT_EQ(worker.ended->code(), 0);
  EXPECT_EQ(worker.set_up.traffic().sent_bytes(), 500);
  ASSERT_THAT(worker.probes, SizeIs(2));
  EXPECT_EQ(worker.probes[1].snapshot_offset(), -1) << "its copies are in a file of its own";
  // Killed at the end: the predecessor's last word is not its own.
  run = RunWith(kShape, [&](Files* files) {
    replace(files);
    (*files)[{"worker", 1}].pop_back();
  });
  EXPECT_THAT(run.problems, ElementsAre("worker 1: record stops after step 20"));
}

TEST(RebuiltRun, AGroupThatShrankIsNotWhatWasAskedFor) {
  const auto shrink = [](Files* files) {
    for (const int rank : {0, 1, 3}) {
      (*files)[{"worker", rank}] = RedoneRecords(kShape, rank, kRestart, 3);
    }
    auto& lost = (*files)[{"worker", 2}];
    lost.resize(2 + 5);  // killed after step 5
  };
  RunRecord run = RunWith(kShape, shrink);
  EXPECT_TRUE(run.shrank);
  EXPECT_FALSE(run.complete);
  EXPECT_THAT(run.problems,
              ElementsAre("worker 2 was lost; the run went on with 3 workers after step 13"));
  EXPECT_THAT(run.workers[3].steps, SizeIs(20));
  // A survivor that did not reach the end either: the run did not end well.
  run = RunWith(kShape, [&](Files* files) {
    shrink(files);
    (*files)[{"worker", 3}].pop_back();
  });
  EXPECT_FALSE(run.shrank);
  EXPECT_THAT(run.problems,
              ElementsAre(HasSubstr("worker 2 was lost"), "worker 3: record stops after step 20"));
}

}  // namespace
}  // namespace lockstep
