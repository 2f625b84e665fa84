// CASES R33: one command makes the failure table, on real processes: who is struck is named, soon,
// in every role; a rebuilt way goes on at its old rate; a lost coordinator ends its members.
#include "experiments/cli/failure_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

constexpr double kKnownMaxMs = 8'000;  // lease and timeout of the spec, on a busy machine

std::vector<std::string> FaultsCommandLine(const TemporaryDir& dir, std::vector<std::string> more) {
  std::vector<std::string> argv = {BinDir() + "/lockstep", "faults", "--out", dir.path() + "/out"};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

FailureFile Table(const CommandResult& result) {
  FailureFile file;
  EXPECT_THAT(FromJson(result.out, kFailureJson, &file), IsOk()) << result.err;
  return file;
}

// Processes whose command line speaks of this folder.
int ProcessesOf(const std::string& dir) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    if (line.find(dir) != std::string::npos) ++count;
  }
  return count;
}

class StoppedWayTest : public testing::TestWithParam<std::string> {};

TEST_P(StoppedWayTest, EveryRoleOfAServerWayIsNamed) {
  const TemporaryDir dir;
  const CommandResult result = RunCommand(
      FaultsCommandLine(dir, {"failures", "--only", GetParam(), "--set", "workers=3", "--json"}),
      120);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const FailureFile file = Table(result);
  ASSERT_EQ(file.rows_size(), 6);
  std::set<std::string> struck;
  for (const FailureRow& row : file.rows()) {
    SCOPED_TRACE(absl::StrCat(row.kind(), " of ", row.target(), ": ", row.message()));
    struck.insert(absl::StrCat(row.kind(), " ", row.role()));
    EXPECT_EQ(row.outcome(), "stopped");
    EXPECT_TRUE(row.has_detected_ms() && row.detected_ms() < kKnownMaxMs);
    EXPECT_GT(row.samples_per_s_before(), 0);
    EXPECT_FALSE(row.has_samples_per_s_after());
    if (row.role() != kCoordinatorRole) {
      EXPECT_EQ(row.exit_code(), 3);
      EXPECT_EQ(row.named(), row.target());
    } else if (row.kind() == "FREEZE") {  // after their lease
      EXPECT_EQ(row.exit_code(), 3);
      EXPECT_EQ(row.named(), kCoordinatorRole);
      EXPECT_GE(row.detected_ms(), 1'000);
    } else {
      EXPECT_NE(row.exit_code(), 0);
    }
  }
  EXPECT_EQ(struck.size(), 6U);
  EXPECT_EQ(ProcessesOf(dir.path()), 0);
}

INSTANTIATE_TEST_SUITE_P(Servers, StoppedWayTest, testing::Values("ps_sync", "ps_bounded"),
                         [](const auto& test) { return test.param; });

// CASES R33: in async, the others keep their rate without the one that was lost. With fewer cores
// than processes they even get its share of the machine, so only the lower side is bounded.
TEST(FailureTableTest, AnAsynchronousWayKeepsTheOthersRate) {
  const TemporaryDir dir;
  const CommandResult result = RunCommand(
      FaultsCommandLine(dir, {"failures", "--only", "ps_async_shrink", "--set", "workers=3",
                              "--set", "train.steps=1500", "--step", "600", "--json"}),
      200);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const FailureFile file = Table(result);
  ASSERT_EQ(file.rows_size(), 6);
  int lost = 0;
  for (const FailureRow& row : file.rows()) {
    if (row.role() != "worker") continue;
    SCOPED_TRACE(row.kind());
    ++lost;
    EXPECT_EQ(row.outcome(), "rebuilt") << row.message();
    EXPECT_EQ(row.exit_code(), 0);
    ASSERT_TRUE(row.has_others_steps_per_s_before() && row.has_others_steps_per_s_after());
    EXPECT_GE(row.others_steps_per_s_after(), 0.9 * row.others_steps_per_s_before());
  }
  EXPECT_EQ(lost, 2);
}

TEST(FailureTableTest, ARebuiltWayGoesOn) {
  const TemporaryDir dir;
  const CommandResult result =
      RunCommand(FaultsCommandLine(dir, {"failures", "--only", "ring_replace", "--json"}), 120);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const FailureFile file = Table(result);
  ASSERT_EQ(file.rows_size(), 4);
  for (const FailureRow& row : file.rows()) {
    if (row.role() != "worker") continue;
    SCOPED_TRACE(row.kind());
    EXPECT_EQ(row.outcome(), "rebuilt") << row.message();
    EXPECT_EQ(row.exit_code(), 0);
    EXPECT_GE(row.recovered_ms(), row.detected_ms());
    EXPECT_GT(row.samples_per_s_after(), 0);
  }
}

TEST(FailureTableTest, WhatItCannotDoIsRefusedBeforeAnythingStarts) {
  const TemporaryDir dir;
  CommandResult result = RunCommand(FaultsCommandLine(dir, {"worker-loss"}), 20);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, testing::HasSubstr("fault[0]: this command strikes by itself"));
  result = RunCommand(FaultsCommandLine(dir, {"failures", "--step", "300"}), 20);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, testing::HasSubstr("--step 300 is none of 1..299"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/out"));
}

}  // namespace
}  // namespace lockstep
