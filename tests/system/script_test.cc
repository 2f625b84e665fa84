// The README's commands, as they stand there: set-up, build, run. The script finds everything
// built, since these tests are part of what it builds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/places.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

// Only the release build is the script's own; from another one it would build all of that first.
class ScriptTest : public testing::Test {
 protected:
  void SetUp() override {
    if (BinDir() != SourceDir() + "/build/release/bin")
      GTEST_SKIP() << "not the script's own build";
  }
  static CommandResult Script(std::vector<std::string> arguments, double timeout_s) {
    arguments.insert(arguments.begin(), SourceDir() + "/lockstep");
    return RunCommand(arguments, timeout_s);
  }
};

std::vector<std::string> ReadmeCommands() {
  std::ifstream readme(SourceDir() + "/README.md");
  std::vector<std::string> commands;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```sh";
    } else if (inside) {
      const std::string command = line.substr(0, line.find('#'));
      commands.push_back(command.substr(0, command.find_last_not_of(' ') + 1));
    }
  }
  return commands;
}

// A new command in the README needs a test here.
TEST_F(ScriptTest, ReadmeHasTheCommandsTestedHere) {
  EXPECT_THAT(ReadmeCommands(), testing::ElementsAre("./lockstep compare", "./lockstep test"));
}

TEST_F(ScriptTest, CompareEndsWithVerdictTableReportAndWhatToTry) {
  const TemporaryDir dir;
  const CommandResult result = Script({"compare", "--out", dir.path() + "/out"}, 120);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no spec given: quickstart"));
  for (const char* part :
       {"identical replicas", "ps_sync", "ring", "none*", "report.html", "Try next:"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

TEST_F(ScriptTest, ASecondCallStartsInASecond) {
  const CommandResult result = Script({"--version"}, 20);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LE(result.elapsed_s, 5);  // one second at rest, and room for a busy machine
}

TEST_F(ScriptTest, WrongUseIsNamed) {
  const CommandResult result = Script({"test", "--fast"}, 20);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--fast"));
  EXPECT_EQ(Script({"compere"}, 20).exit_code, 2);
}

}  // namespace
}  // namespace lockstep
