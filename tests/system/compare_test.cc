// The whole path as a user runs it: real processes, real sockets, files read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/run_json.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/comparison.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr double kTimeoutS = 60;

TEST(CompareTest, QuickstartInSmallKeepsItsPromises) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, {"--blocks", "2", "--set", "train.steps=20"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.err;
  EXPECT_THAT(compared.result.err, HasSubstr("no spec given: quickstart"));
  EXPECT_EQ(compared.run.state(), "complete");
  ASSERT_EQ(compared.run.runs_size(), 8);
  for (const char* id : {"ps_sync", "naive", "ring", "tree", "ps_schedule"}) {
    const VariantResult& variant = VariantOf(compared.run, id);
    EXPECT_EQ(variant.replicas().state(), "identical") << id;
    EXPECT_TRUE(variant.repeated_hash_equal()) << id;
    EXPECT_EQ(variant.replicas().max_rel().number_value(), 0) << id;
    EXPECT_EQ(variant.final_hash().size(), 32U) << id;
    EXPECT_TRUE(variant.ranked());
  }
  const VariantResult& none = VariantOf(compared.run, "none");
  EXPECT_EQ(none.replicas().state(), "diverged");
  EXPECT_EQ(none.replicas().first_diff_step(), 1);
  EXPECT_GT(none.replicas().max_rel().number_value(), 0);
  EXPECT_FALSE(none.ranked());
  for (const char* id : {"ps_async", "ps_async_r"}) {
    EXPECT_EQ(VariantOf(compared.run, id).staleness().applied(), 2 * 4 * 20) << id;
  }
  for (const char* file : {"experiment.textproto", "run.json", "servers.csv", "steps.csv",
                           "trace.json", "report.html"}) {
    EXPECT_GT(std::filesystem::file_size(dir.path() + "/out/" + file), 0U) << file;
  }
}

// Counted bytes equal the formula within 1 % at 1 MiB buckets.
TEST(CompareTest, CountedBytesMeetTheFormula) {
  const TemporaryDir dir;
  const Compared compared =
      Compare(dir, {"--blocks", "1", "--set", "train.steps=8", "--set",
                    "model=mlp { layers: [64, 1024, 512, 10] }", "--set", "bucket_cap_mb=1",
                    "--set", "limits.snapshot_bytes_max=0"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.err;
  const double gradient_bytes = compared.run.model().gradient_bytes();
  EXPECT_EQ(gradient_bytes, 4.0 * (64 * 1024 + 1024 + 1024 * 512 + 512 + 512 * 10 + 10));
  const struct {
    const char* id;
    double sent;             // by a worker, in S
    double each_server = 0;  // in and out, in S
  } ways[] = {{"ring", 1.5},     {"naive", 3},       {"tree", 1.5},
              {"ps_sync", 1, 2}, {"ps_async", 1, 2}, {"ps_schedule", 1, 2}};
  for (const auto& way : ways) {
    const BytesResult& bytes = VariantOf(compared.run, way.id).bytes();
    EXPECT_NEAR(bytes.tx_per_worker_step() / (way.sent * gradient_bytes), 1, 0.01) << way.id;
    EXPECT_NEAR(bytes.rx_per_worker_step() / bytes.formula(), 1, 0.01) << way.id;
    if (way.each_server == 0) continue;
    EXPECT_NEAR(bytes.server_in_per_step() / (way.each_server * gradient_bytes), 1, 0.01) << way.id;
    EXPECT_NEAR(bytes.server_out_per_step() / bytes.server_formula(), 1, 0.01) << way.id;
  }
  EXPECT_EQ(VariantOf(compared.run, "none").bytes().tx_per_worker_step(), 0);
  EXPECT_FALSE(VariantOf(compared.run, "none").replicas().max_rel_reason().empty());
}

std::vector<float> LastSnapshot(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto bytes = static_cast<std::streamoff>(file.tellg());
  constexpr std::streamoff kParameters = 64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10;
  std::vector<float> values(kParameters);
  file.seekg(bytes - kParameters * 4);
  file.read(reinterpret_cast<char*>(values.data()), kParameters * 4);
  EXPECT_TRUE(file) << path;
  return values;
}

// "Equal" is not "right": both ways follow a single process with the same global batch (CASES R16).
TEST(CompareTest, FollowsASingleProcess) {
  const TemporaryDir dir;
  const TemporaryDir reference_dir;
  const std::vector<std::string> common = {"--blocks", "1",
                                           "--set",    "train.steps=20",
                                           "--set",    "train.global_batch=32",
                                           "--set",    "probe.keep_snapshots=true"};
  std::vector<std::string> single = common;
  single.insert(single.end(), {"--set", "workers=1", "--only", "none"});
  ASSERT_EQ(Compare(dir, common).result.exit_code, 0);
  ASSERT_EQ(Compare(reference_dir, single).result.exit_code, 0);
  const auto snapshot_of = [](const TemporaryDir& from, const std::string& id) {
    return LastSnapshot(
        absl::StrCat(from.path(), "/out/blocks/1-", id, "-seed-1/records/worker-0.rec.params"));
  };
  const auto expected = snapshot_of(reference_dir, "none");
  double largest = 0;
  for (const float value : expected) {
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  for (const std::string id : {"ps_sync", "naive", "ring", "tree", "ps_schedule"}) {
    const auto actual = snapshot_of(dir, id);
    double distance = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      distance = std::max(
          distance, std::fabs(static_cast<double>(actual[i]) - static_cast<double>(expected[i])));
    }
    EXPECT_LE(distance / largest, 1e-5) << id;
    EXPECT_GT(distance, 0) << id << ": another summation order should round differently";
  }
}

TEST(CompareTest, UsageErrorsExitWith2BeforeAnythingStarts) {
  const TemporaryDir dir;
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"--set", "train.step=3"}, "did you mean"},
      {{"--set", "train.global_batch=30"}, "global_batch"},
      {{"no-such-spec"}, "quickstart"},
      {{"--set", "network.time_base=SHAPED"}, "not built yet"},
      {{"--only", "star"}, "ps_sync"},
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"--blocks", "0"}, "blocks"},
  };
  for (const Case& test : cases) {
    std::vector<std::string> arguments = test.arguments;
    arguments.insert(arguments.end(), {"--out", dir.path() + "/out"});
    const CommandResult result = RunCommand(CompareCommand(arguments), kTimeoutS);
    EXPECT_EQ(result.exit_code, 2) << test.message << result.err;
    EXPECT_THAT(result.err, HasSubstr(test.message));
    EXPECT_FALSE(std::filesystem::exists(dir.path() + "/out")) << test.message;
  }
}

// CASES R54: an existing result is not overwritten, an impossible place is said before training.
TEST(CompareTest, OutputPlaceIsCheckedFirst) {
  const TemporaryDir dir;
  std::ofstream(dir.path() + "/file") << "mine";
  const CommandResult file = RunCommand(CompareCommand({"--out", dir.path() + "/file"}), kTimeoutS);
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.err, HasSubstr(dir.path() + "/file"));
  const CommandResult full = RunCommand(CompareCommand({"--out", dir.path()}), kTimeoutS);
  EXPECT_EQ(full.exit_code, 2);
  EXPECT_THAT(full.err, HasSubstr("not empty"));
}

TEST(CompareTest, HelpHasAnExampleAndJsonGoesToStandardOutput) {
  const CommandResult help = RunCommand({BinDir() + "/lockstep", "compare", "--help"}, kTimeoutS);
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--set"));
  EXPECT_THAT(help.out, HasSubstr("Example"));
  const TemporaryDir dir;
  const CommandResult json = RunCommand(
      CompareCommand({"--quick", "--only", "ring", "--json", "--out", dir.path() + "/out"}),
      kTimeoutS);
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_THAT(RunFromJson(json.out), IsOk());
}

}  // namespace
}  // namespace lockstep
