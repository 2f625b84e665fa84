// What losses cost, in records whose every number is known; and which pushes came late.
#include "experiments/analyse/recovery.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/analyse/aggregate.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::kMs;
using synthetic::RunWith;
using synthetic::Shape;

const Shape kServers = {.variant = "ps_sync", .servers = 2};
constexpr int kRestart = 12;  // the group goes on after this step

VariantResult Result(const std::vector<RunRecord>& runs) {
  auto result = Aggregate(runs, nullptr);
  EXPECT_THAT(result, IsOk());
  return *std::move(result);
}

// Before the record of step `kRestart` + 1, or at the end where there is none.
void InsertAfterRestart(const Record& record, std::vector<Record>* records) {
  const auto at = std::find_if(records->begin(), records->end(), [](const Record& one) {
    return (one.has_step() && one.step().step() > kRestart) ||
           (one.has_applied() && one.applied().step() > kRestart) || one.has_ended();
  });
  records->insert(at, record);
}

Record RebuiltAt(int64_t noticed_ms, int64_t over_ms) {
  Record record;
  record.set_time_ns(over_ms * kMs);
  record.mutable_rebuilt()->set_epoch(2);
  record.mutable_rebuilt()->set_step(kRestart);
  record.mutable_rebuilt()->set_world_size(4);
  record.mutable_rebuilt()->set_broken_ns(noticed_ms * kMs);
  record.mutable_rebuilt()->set_cause("server 1 is lost");
  return record;
}

Record RecoveredRecord(int64_t version, int64_t lost_versions) {
  Record record;
  Recovered* recovered = record.mutable_recovered();
  recovered->set_epoch(2);
  recovered->set_version(version);
  recovered->set_lost_versions(lost_versions);
  recovered->set_exposed_ns(70 * kMs);
  recovered->set_duplicates(3);
  *recovered->mutable_traffic() = synthetic::Bytes(1'000, 1'000);
  return record;
}

TEST(Recovery, IsAbsentWhereNobodyWasLost) {
  EXPECT_FALSE(Result({synthetic::Run(kServers)}).has_recovery());
}

TEST(Recovery, CountsFromTheFirstThatNoticedToTheLastThatGoesOn) {
  const RunRecord run = RunWith(kServers, [](Files* files) {
    for (int rank = 0; rank < 4; ++rank) {
      InsertAfterRestart(RebuiltAt(125 + rank, 200 + 10 * rank), &(*files)[{"worker", rank}]);
    }
    for (int index = 0; index < 2; ++index) {
      InsertAfterRestart(RecoveredRecord(kRestart, 0), &(*files)[{"server", index}]);
    }
  });
  const VariantResult result = Result({run, synthetic::Run(kServers)});
  ASSERT_TRUE(result.has_recovery());
  const RecoveryResult& recovery = result.recovery();
  EXPECT_EQ(recovery.losses(), 1);
  EXPECT_NEAR(recovery.recovery_s().p50(), 0.230 - 0.125, 1e-9);
  EXPECT_FALSE(recovery.has_detection_s()) << "no planned fault struck";
  EXPECT_FALSE(recovery.has_unavailable_s());
  EXPECT_NEAR(recovery.exposed_s().p50(), 0.070, 1e-9);
  EXPECT_EQ(recovery.changes(), 0);
  EXPECT_EQ(recovery.lost_versions(), 0);
  EXPECT_EQ(recovery.redone_steps(), 0);
  EXPECT_EQ(recovery.duplicates(), 6);
  EXPECT_EQ(recovery.transfer_bytes(),
            2'000);  // sent and received by two servers, each counted once
  EXPECT_EQ(recovery.first_cause(), "server 1 is lost");
  EXPECT_GT(recovery.goodput_samples_per_s(), 0);
}

Record StrikeAt(const std::string& kind, int64_t ms) {
  Record record;
  record.set_time_ns(ms * kMs);
  record.mutable_injected()->set_kind(kind);
  return record;
}

TEST(Recovery, BeginsWithTheStrikeThatWasPlanned) {
  std::vector<RunRecord> runs;
  for (const int64_t late_ms : {0, 10, 40}) {
    runs.push_back(RunWith(kServers, [&](Files* files) {
      InsertAfterRestart(StrikeAt("DELAY", 115), &(*files)[{"worker", 0}]);
      InsertAfterRestart(StrikeAt("KILL", 105), &(*files)[{"server", 1}]);
      for (int rank = 0; rank < 4; ++rank) {
        InsertAfterRestart(RebuiltAt(125 + late_ms, 200), &(*files)[{"worker", rank}]);
      }
    }));
  }
  const RecoveryResult recovery = Result(runs).recovery();
  EXPECT_EQ(recovery.losses(), 3);
  EXPECT_NEAR(recovery.detection_s().p50(), 0.030, 1e-9);
  EXPECT_NEAR(recovery.detection_s().p95(), 0.057, 1e-9);
  EXPECT_NEAR(recovery.detection_s().max(), 0.060, 1e-9);
  EXPECT_NEAR(recovery.recovery_s().max(), 0.075, 1e-9);
  EXPECT_NEAR(recovery.unavailable_s().p50(), 0.095, 1e-9);
}

TEST(Recovery, APlannedChangeIsNoLoss) {
  const RunRecord run = RunWith(kServers, [](Files* files) {
    for (int rank = 0; rank < 4; ++rank) {
      Record rebuilt = RebuiltAt(125, 200);
      rebuilt.mutable_rebuilt()->set_none_lost(true);
      InsertAfterRestart(rebuilt, &(*files)[{"worker", rank}]);
    }
  });
  const RecoveryResult recovery = Result({run}).recovery();
  EXPECT_EQ(recovery.losses(), 0);
  EXPECT_EQ(recovery.changes(), 1);
  EXPECT_NEAR(recovery.pause_s().max(), 0.075, 1e-9);
  EXPECT_FALSE(recovery.has_recovery_s());
}

// A second process of server 1 begins; the first one ended by itself.
double FalseFailoversAfter(const std::vector<Record>& of_first) {
  const RunRecord run = RunWith(kServers, [&](Files* files) {
    for (int rank = 0; rank < 4; ++rank) {
      InsertAfterRestart(RebuiltAt(125, 200), &(*files)[{"worker", rank}]);
    }
    std::vector<Record>& records = (*files)[{"server", 1}];
    const Record started = records.front();
    InsertAfterRestart(started, &records);
    for (const Record& record : of_first) {
      const auto second = std::find_if(std::next(records.begin()), records.end(),
                                       [](const Record& one) { return one.has_started(); });
      records.insert(second, record);
    }
  });
  EXPECT_TRUE(run.complete) << testing::PrintToString(run.problems);
  return Result({run}).recovery().false_failovers();
}

TEST(Recovery, AFalseFailoverIsOfAProcessThatLivedOn) {
  Record ended;
  ended.mutable_ended()->set_code(14);
  Record left = ended;
  left.mutable_ended()->set_left(true);
  EXPECT_EQ(FalseFailoversAfter({}), 0) << "it was killed";
  EXPECT_EQ(FalseFailoversAfter({ended}), 1);
  EXPECT_EQ(FalseFailoversAfter({StrikeAt("FREEZE", 105), ended}), 0);
  EXPECT_EQ(FalseFailoversAfter({left}), 0);
}

TEST(Recovery, WhatASnapshotTookBackIsLeftOutAndCounted) {
  Files files = synthetic::FilesOf(kServers);
  for (int index = 0; index < 2; ++index) {
    std::vector<Record>& records = files[{"server", index}];
    Record undone;
    undone.mutable_applied()->set_step(kRestart + 1);
    undone.mutable_applied()->set_version(kRestart + 1);
    // The last is inserted first: the update, and then that it is taken back.
    InsertAfterRestart(undone, &records);
    const auto at = std::find_if(records.begin(), records.end(), [](const Record& one) {
      return one.applied().version() == kRestart + 1;
    });
    records.insert(std::next(at), RecoveredRecord(kRestart, 1));
  }
  for (int rank = 0; rank < 4; ++rank) {
    InsertAfterRestart(RebuiltAt(125, 200), &files[{"worker", rank}]);
  }
  RunConfig config = synthetic::Config(kServers);
  config.mutable_variant()->mutable_ps()->set_policy(Ps::SNAPSHOT);
  const RunRecord run = MergeRun(config, synthetic::ReaderOf(files));
  EXPECT_TRUE(run.complete) << testing::PrintToString(run.problems);
  EXPECT_EQ(run.servers[0].applied.size(), 20u);
  EXPECT_EQ(Result({run}).recovery().lost_versions(), 1);
}

// An update was counted twice: the record has it before an older one, whose reply was sent later.
TEST(Recovery, WhatASnapshotTookBackIsLeftOutWhereverItWasWritten) {
  Files files = synthetic::FilesOf(kServers);
  for (int index = 0; index < 2; ++index) {
    std::vector<Record>& records = files[{"server", index}];
    auto newest = std::find_if(records.begin(), records.end(), [](const Record& one) {
      return one.has_applied() && one.applied().step() == kRestart;
    });
    ASSERT_NE(newest, records.end());
    Record undone;
    undone.mutable_applied()->set_step(kRestart + 1);
    undone.mutable_applied()->set_version(kRestart + 1);
    newest = records.insert(newest, undone);
    records.insert(std::next(newest, 2), RecoveredRecord(kRestart, 1));
  }
  for (int rank = 0; rank < 4; ++rank) {
    InsertAfterRestart(RebuiltAt(125, 200), &files[{"worker", rank}]);
  }
  RunConfig config = synthetic::Config(kServers);
  config.mutable_variant()->mutable_ps()->set_policy(Ps::SNAPSHOT);
  const RunRecord run = MergeRun(config, synthetic::ReaderOf(files));
  EXPECT_EQ(run.servers[0].applied.size(), 20u);
  EXPECT_EQ(run.servers[1].applied.size(), 20u);
}

// Such a run was called incomplete: the server died before its first update.
TEST(Recovery, AReplacementMayHeadNoShard) {
  const RunRecord run = RunWith(kServers, [](Files* files) {
    std::vector<Record>& records = (*files)[{"server", 1}];
    std::erase_if(records, [](const Record& one) { return one.has_applied(); });
    const Record started = records.front();
    records.insert(std::next(records.begin()), started);
    for (int rank = 0; rank < 4; ++rank) {
      InsertAfterRestart(RebuiltAt(125, 200), &(*files)[{"worker", rank}]);
    }
  });
  EXPECT_TRUE(run.complete) << testing::PrintToString(run.problems);
}

TEST(Pushes, AreCountedAWorker) {
  RunRecord run = synthetic::Run(kServers);
  run.config.mutable_variant()->mutable_ps()->set_mode(Ps::K_OF_N);
  for (Applied& applied : run.servers[0].applied) {
    applied.clear_push();
    for (const int worker : {0, 1, 3}) applied.add_push()->set_worker(worker);
    applied.add_rejected(2);
  }
  run.servers[1].applied.clear();
  const VariantResult result = Result({run});
  ASSERT_EQ(result.pushes_size(), 4);
  EXPECT_EQ(result.pushes(0).accepted(), 20);
  EXPECT_EQ(result.pushes(2).accepted(), 0);
  EXPECT_EQ(result.pushes(2).rejected(), 20);
}

TEST(Bounded, HasItsBoundAndWhoWasHeld) {
  const RunRecord run = RunWith({.variant = "ps_bounded", .servers = 2}, [](Files* files) {
    for (int index = 0; index < 2; ++index) {
      for (Record& record : (*files)[{"server", index}]) {
        if (record.has_applied() && record.applied().worker() == 1) {
          record.mutable_applied()->set_blocked_ns((index + 1) * kMs);
        }
      }
    }
  });
  const StalenessResult staleness = Result({run}).staleness();
  EXPECT_EQ(staleness.bound(), 1);
  EXPECT_EQ(staleness.clock_max(), 1);
  ASSERT_EQ(staleness.blocked_s_size(), 4);
  EXPECT_EQ(staleness.blocked_s(0), 0);
  EXPECT_NEAR(staleness.blocked_s(1), 20 * 2e-3, 1e-9);  // of the server that held it longest
}

}  // namespace
}  // namespace lockstep
