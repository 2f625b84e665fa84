// How a comparison starts: its addresses, its folder, many at once; and --dry-run, which starts
// nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/socket.h"
#include "tests/support/status_matchers.h"
#include "tests/system/comparison.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr double kTimeoutS = 60;

// Small enough that twenty of them fit on two cores.
constexpr char kTiny[] = R"(name: "tiny"
model { mlp { layers: [64, 10] } }
data { digits {} }
train { global_batch: 8 steps: 3 }
workers: 1
variant { name: "ring" all_reduce {} }
blocks: 1
)";

// CASES R11.
TEST(LaunchTest, TwentyComparisonsAtOnceAllFinish) {
  const TemporaryDir dir;
  const std::string spec = SpecFile(dir, kTiny);
  std::vector<std::unique_ptr<Subprocess>> comparisons;
  for (int i = 0; i < 20; ++i) {
    comparisons.push_back(std::make_unique<Subprocess>(
        CompareCommand({spec, "--plain", "--out", dir.path() + "/out-" + std::to_string(i)})));
  }
  for (const auto& comparison : comparisons) {
    const CommandResult result = comparison->Wait(kTimeoutS);
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

struct ListenCase {
  std::string name;
  std::string listen;
  int exit_code;
  std::string message;
};
class ListenTest : public testing::TestWithParam<ListenCase> {};

// CASES R10, R11: three distinct errors with host, address and port, in under 2 s, before anything
// starts.
TEST_P(ListenTest, IsAnErrorBeforeAnythingStarts) {
  const TemporaryDir dir;
  const CommandResult result = RunCommand(
      CompareCommand({"--quick", "--listen", GetParam().listen, "--out", dir.path() + "/out"}),
      kTimeoutS);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_LT(result.elapsed_s, 2);
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/out"));
}

INSTANTIATE_TEST_SUITE_P(
    Launch, ListenTest,
    testing::Values(ListenCase{"NotOurs", "192.0.2.1:7000", 4,
                               "192.0.2.1:7000 is not an address of this host"},
                    ListenCase{"Unresolvable", "no-such-host.invalid:7000", 2,
                               "no-such-host.invalid:7000 does not resolve"},
                    ListenCase{"Malformed", "127.0.0.1:port", 2, "127.0.0.1:port"},
                    ListenCase{"EveryAddress", "0.0.0.0", 2, "every address"}),
    [](const auto& test) { return test.param.name; });

TEST(LaunchTest, ATakenPortIsNamed) {
  const TemporaryDir dir;
  const auto taken = Listen({"127.0.0.1", 0});
  ASSERT_THAT(taken, IsOk());
  const std::string address = taken->endpoint.ToString();
  const CommandResult result = RunCommand(
      CompareCommand({"--quick", "--listen", address, "--out", dir.path() + "/out"}), kTimeoutS);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("port of " + address + " is taken"));
  EXPECT_LT(result.elapsed_s, 2);
}

// All runs of a comparison use the given port, one after the other.
TEST(LaunchTest, ALocalNameWithAPortWorks) {
  const TemporaryDir dir;
  uint16_t port = 0;
  {
    const auto free_port = Listen({"localhost", 0});
    ASSERT_THAT(free_port, IsOk());
    port = free_port->endpoint.port;
  }
  const Compared compared =
      Compare(dir, {SpecFile(dir, kTiny), "--blocks", "3", "--set", "workers=2", "--listen",
                    "localhost:" + std::to_string(port)});
  EXPECT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
}

TEST(DryRunTest, SaysWhatWouldHappenAndDoesNothing) {
  const TemporaryDir dir;
  const CommandResult result =
      RunCommand(CompareCommand({"--dry-run", "--out", dir.path() + "/out"}), kTimeoutS);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"24 runs of 120 steps", "ps_schedule", "processes", "ports",
                           "340,008 = S", "Time: ", "/out. Nothing was started"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(DryRunTest, RefusesWhatARunWouldRefuse) {
  const TemporaryDir dir;
  const std::string out = dir.path() + "/out";
  const std::vector<std::vector<std::string>> refused = {{"--set", "workers=3", "--out", out},
                                                         {"--only", "star", "--out", out},
                                                         {"--listen", "192.0.2.1", "--out", out},
                                                         {"--out", SpecFile(dir, kTiny)},
                                                         {"--out", dir.path()}};
  for (std::vector<std::string> arguments : refused) {
    arguments.emplace_back("--dry-run");
    const CommandResult result = RunCommand(CompareCommand(arguments), kTimeoutS);
    EXPECT_NE(result.exit_code, 0) << arguments[1];
    EXPECT_EQ(result.out, "") << arguments[1];
    EXPECT_FALSE(std::filesystem::exists(out));
  }
}

}  // namespace
}  // namespace lockstep
