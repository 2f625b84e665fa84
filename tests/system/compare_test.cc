// The whole path as a user runs it: real processes, real sockets, files read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "experiments/analyse/run_json.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr double kTimeoutS = 60;

struct Compared {
  CommandResult result;
  RunFile run;
};

// Runs `lockstep compare` into `dir`/out and reads its run.json.
Compared Compare(const TemporaryDir& dir, std::vector<std::string> arguments) {
  const std::string out = dir.path() + "/out";
  arguments.insert(arguments.end(), {"--plain", "--out", out});
  Compared compared{.result = RunCommand(CompareCommand(arguments), kTimeoutS), .run = {}};
  const auto run = ReadRunJson(out + "/run.json");
  EXPECT_THAT(run, IsOk()) << compared.result.err;
  if (run.ok()) compared.run = *run;
  return compared;
}

const VariantResult& Variant(const RunFile& run, const std::string& id) {
  for (const VariantResult& variant : run.runs()) {
    if (variant.id() == id) return variant;
  }
  ADD_FAILURE() << "no variant " << id;
  return VariantResult::default_instance();
}

TEST(CompareTest, QuickstartInSmallKeepsItsPromises) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, {"--blocks", "2", "--set", "train.steps=20"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.err;
  EXPECT_THAT(compared.result.err, HasSubstr("no spec given: quickstart"));
  EXPECT_EQ(compared.run.state(), "complete");
  ASSERT_EQ(compared.run.runs_size(), 3);
  for (const char* id : {"ring", "ps_sync"}) {
    const VariantResult& variant = Variant(compared.run, id);
    EXPECT_EQ(variant.replicas().state(), "identical") << id;
    EXPECT_TRUE(variant.repeated_hash_equal()) << id;
    EXPECT_EQ(variant.replicas().max_rel().number_value(), 0) << id;
    EXPECT_EQ(variant.final_hash().size(), 32U) << id;
    EXPECT_TRUE(variant.ranked());
  }
  const VariantResult& none = Variant(compared.run, "none");
  EXPECT_EQ(none.replicas().state(), "diverged");
  EXPECT_EQ(none.replicas().first_diff_step(), 1);
  EXPECT_GT(none.replicas().max_rel().number_value(), 0);
  EXPECT_FALSE(none.ranked());
  for (const char* file : {"experiment.textproto", "run.json", "steps.csv", "report.html"}) {
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
  const BytesResult& ring = Variant(compared.run, "ring").bytes();
  EXPECT_NEAR(ring.tx_per_worker_step() / (2.0 * 3 / 4 * gradient_bytes), 1, 0.01);
  EXPECT_NEAR(ring.rx_per_worker_step() / ring.formula(), 1, 0.01);
  const BytesResult& ps = Variant(compared.run, "ps_sync").bytes();
  EXPECT_NEAR(ps.tx_per_worker_step() / gradient_bytes, 1, 0.01);
  EXPECT_NEAR(ps.server_in_per_step() / (4 * gradient_bytes / 2), 1, 0.01);
  EXPECT_NEAR(ps.server_out_per_step() / ps.server_formula(), 1, 0.01);
  EXPECT_EQ(Variant(compared.run, "none").bytes().tx_per_worker_step(), 0);
  EXPECT_FALSE(Variant(compared.run, "none").replicas().max_rel_reason().empty());
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
  const std::string tail = "-seed-1/records/worker-0.rec.params";
  const auto expected = LastSnapshot(reference_dir.path() + "/out/blocks/1-none" + tail);
  double largest = 0;
  for (const float value : expected)
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  for (const std::string id : {"ring", "ps_sync"}) {
    const auto actual = LastSnapshot(dir.path() + "/out/blocks/1-" + id + tail);
    double distance = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      distance = std::max(
          distance, std::fabs(static_cast<double>(actual[i]) - static_cast<double>(expected[i])));
    }
    EXPECT_LE(distance / largest, 1e-5) << id;
    EXPECT_GT(distance, 0) << id << ": another summation order should round differently";
  }
}

// CASES R21: one worker, one server.
TEST(CompareTest, OneWorkerIsEnough) {
  const TemporaryDir dir;
  const Compared compared =
      Compare(dir, {"--quick", "--set", "workers=1", "--set", "variant[ps_sync].ps.servers=1"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.err;
  EXPECT_EQ(Variant(compared.run, "ring").bytes().tx_per_worker_step(), 0);
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
      {{"--only", "tree"}, "ps_sync"},
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
