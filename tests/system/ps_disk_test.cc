// A server whose disk is full, on real processes: training goes on, the snapshot that was not
// written is named, the next one is written when there is room again, and a restore takes the
// newest cut that every server has written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/system/fault_run.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kSnapshot[] = "servers: 2 policy: SNAPSHOT snapshot_every: 3";
constexpr int kSteps = 18;
// The disk is full when step 6 begins; a worker stands still at step 8 until long after there is
// room again, and at step 11 until the cut of step 9 is written; then a server dies.
constexpr char kFull[] = "target: \"server:0\" at { step: 6 } kind: DISK_FULL for: \"800ms\"";
constexpr char kUntilRoom[] = "target: \"worker:0\" at { step: 8 } kind: FREEZE for: \"1800ms\"";
constexpr char kUntilWritten[] = "target: \"worker:0\" at { step: 11 } kind: FREEZE for: \"700ms\"";
const std::vector<std::string> kPatient = {"limits.lease_ms=6000", "limits.sync_timeout_ms=7000"};

std::string UndisturbedHash() {
  const FaultRun run({.ps = kSnapshot, .steps = kSteps});
  EXPECT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  return run.FinalHash(0);
}

void ExpectNamed(const FaultRun& run) {
  const std::string log = run.Log("server-0.log");
  EXPECT_THAT(log, HasSubstr("server 0: no snapshot of shard 0 at step 6: "));
  EXPECT_THAT(log, HasSubstr("No space left on device (planned fault DISK_FULL)"));
  EXPECT_THAT(log, HasSubstr("training goes on"));
  EXPECT_THAT(log, Not(HasSubstr("no snapshot of shard 0 at step 9"))) << "there is room again";
}

TEST(PsDiskTest, TheNextSnapshotIsWrittenAndRestored) {
  const FaultRun run({.ps = kSnapshot,
                      .steps = kSteps,
                      .faults = {kFull, kUntilRoom, kUntilWritten,
                                 "target: \"server:1\" at { step: 12 } kind: KILL"},
                      .set = kPatient});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  ExpectNamed(run);
  EXPECT_THAT(run.result().out + run.result().err,
              HasSubstr("every shard goes back to its snapshot of step 9"));
  EXPECT_EQ(run.FinalHash(0), UndisturbedHash());
}

// Server 1 has written its part of the cut of step 6.
TEST(PsDiskTest, UntilThenARestoreTakesTheCutBefore) {
  const FaultRun run(
      {.ps = kSnapshot,
       .steps = kSteps,
       .faults = {kFull, kUntilRoom, "target: \"server:1\" at { step: 8 } kind: KILL"},
       .set = kPatient});
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  const std::string log = run.Log("server-0.log");
  EXPECT_THAT(log, HasSubstr("server 0: no snapshot of shard 0 at step 6: "));
  EXPECT_THAT(run.result().out + run.result().err,
              HasSubstr("every shard goes back to its snapshot of step 3"));
  EXPECT_EQ(run.FinalHash(0), UndisturbedHash());
}

}  // namespace
}  // namespace lockstep
