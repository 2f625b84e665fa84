// `lockstep schedule` as a program: the examples of its help in their order, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/support/places.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double kTimeoutS = 30;
constexpr char kScript[] = "./lockstep ";

// As a user types it after "./lockstep ", in `dir`.
CommandResult Shell(const TemporaryDir& dir, const std::string& command) {
  return RunCommand(
      {"/bin/sh", "-c", absl::StrCat("cd ", dir.path(), " && ", BinDir(), "/lockstep ", command)},
      kTimeoutS);
}

// "schedule show ring --ranks 3": two spaces end a command.
std::vector<std::string> Examples(const std::string& help) {
  std::vector<std::string> commands;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    if (!absl::ConsumePrefix(&line, absl::StrCat("  ", kScript))) continue;
    commands.emplace_back(line.substr(0, line.find("  ")));
  }
  return commands;
}

TEST(ScheduleCommandTest, TheExamplesOfItsHelpWork) {
  const TemporaryDir dir;
  const CommandResult help = Shell(dir, "schedule --help");
  EXPECT_EQ(help.exit_code, 0);
  const std::vector<std::string> examples = Examples(help.out);
  ASSERT_EQ(examples.size(), 4U) << help.out;
  for (const std::string& example : examples) {
    const CommandResult result = Shell(dir, example);
    EXPECT_EQ(result.exit_code, 0) << example << "\n" << result.err;
    EXPECT_EQ(result.err, "") << example;
  }
}

TEST(ScheduleCommandTest, ExitCodesTellRightWrongAndNoSchedule) {
  const TemporaryDir dir;
  EXPECT_EQ(Shell(dir, "schedule show ring --ranks 3 --text > ring.txt").exit_code, 0);
  const CommandResult right = Shell(dir, "schedule verify ring.txt");
  EXPECT_EQ(right.exit_code, 0);
  EXPECT_THAT(right.out, StartsWith("right: ring.txt all_reduce, ranks 3"));

  EXPECT_EQ(Shell(dir, "--version && sed -i 's/add chunk 1/add chunk 2/' ring.txt").exit_code, 0);
  const CommandResult wrong = Shell(dir, "schedule verify ring.txt");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, StartsWith("wrong: ring.txt:8: rank 0 lane 0 move 1: different chunks"));

  EXPECT_EQ(Shell(dir, "--version && sed -i 's/add chunk/plus chunk/' ring.txt").exit_code, 0);
  const CommandResult none = Shell(dir, "schedule verify ring.txt");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, AllOf(StartsWith("lockstep schedule: ring.txt:8:"),
                              HasSubstr("for example: recv from 2, add chunk 1, send to 1")));
}

TEST(ScheduleCommandTest, UnknownAlgorithmsAndCommandsListWhatThereIs) {
  const TemporaryDir dir;
  const CommandResult algorithm = Shell(dir, "schedule show rign --ranks 3");
  EXPECT_EQ(algorithm.exit_code, 2);
  EXPECT_THAT(algorithm.err, HasSubstr("'rign' is no algorithm and no file; there are ring, "));
  EXPECT_EQ(Shell(dir, "schedule").exit_code, 2);
  const CommandResult command = Shell(dir, "shedule");
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_THAT(command.err, AllOf(HasSubstr("compare"), HasSubstr("schedule")));
}

}  // namespace
}  // namespace lockstep
