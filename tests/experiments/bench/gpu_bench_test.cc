// `lockstep bench gpu`: all that gpu_check does, over host memory in place of a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "experiments/analyse/proto_json.h"
#include "experiments/bench/bench_json.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

class GpuBenchTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove(Program());
    fs::create_hard_link(fs::path(BinDir()) / "lockstep", Program());
  }
  void TearDown() override { fs::remove(Program()); }
  static fs::path Program() { return fs::path(BinDir()) / "fake_cuda/lockstep"; }

  static CommandResult Run(const std::vector<std::string>& variables,
                           const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"/usr/bin/env"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {Program(), "bench", "gpu", "--quick"});
    words.insert(words.end(), flags.begin(), flags.end());
    return RunCommand(words, 120);
  }
};

TEST_F(GpuBenchTest, EveryKernelIsCheckedAndARowOfTheJson) {
  const CommandResult result = Run({"LOCKSTEP_TEST_GPUS=1"}, {"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  GpuBenchFile file;
  ASSERT_THAT(FromJson(result.out, {"bench file", kBenchSchema}, &file), IsOk());
  EXPECT_EQ(file.device().count(), 1);
  EXPECT_EQ(file.driver(), 13000);
  EXPECT_THAT(file.build(), Not(IsEmpty()));
  EXPECT_THAT(file.command(), HasSubstr("bench gpu --quick"));
  EXPECT_GT(file.copy_roof_gb_s(), 0);
  EXPECT_GT(file.empty_launch_us(), 0);
  EXPECT_GT(file.correctness().cases(), 500);
  EXPECT_THAT(file.correctness().wrong(), IsEmpty());
  std::set<std::string> kernels;
  for (const GpuBenchRow& row : file.rows()) {
    EXPECT_EQ(row.engine(), "cuda");
    EXPECT_EQ(row.link(), "gpu");
    EXPECT_TRUE(row.correct()) << row.DebugString();
    EXPECT_GT(row.time_us().p50(), 0);
    EXPECT_GE(row.time_us().p99(), row.time_us().p50());
    EXPECT_GT(row.algbw_gb_s(), 0);
    EXPECT_GT(row.light_percent(), 0);
    EXPECT_FALSE(row.has_busbw_gb_s()) << "on one GPU no connection carries it";
    kernels.insert(row.algorithm());
  }
  EXPECT_THAT(kernels, ElementsAre("direct", "double_tree", "packet", "pull", "ring", "tree"));
}

TEST_F(GpuBenchTest, AWrongResultIsCode1AndNamed) {
  const CommandResult result = Run({"LOCKSTEP_TEST_GPUS=1", "LOCKSTEP_TEST_WRONG_RANK=0"}, {});
  EXPECT_EQ(result.exit_code, kExitPromiseBroken) << result.err;
  EXPECT_THAT(result.out, HasSubstr("WRONG ring R=1"));
  EXPECT_THAT(result.out, HasSubstr("rank 0: wrong from byte 0"));
}

TEST_F(GpuBenchTest, WithoutAGpuItIsSaidWhatIsMissing) {
  const CommandResult result = Run({"LOCKSTEP_TEST_GPUS=0"}, {});
  EXPECT_EQ(result.exit_code, kExitEnvironment);
  EXPECT_EQ(result.err,
            "lockstep: bench gpu: no CUDA device: the driver is here, but shows no GPU\n");
}

TEST_F(GpuBenchTest, AProgramWithoutGpuCheckSaysHowToGetIt) {
  const TemporaryDir dir;
  fs::copy_file(Program(), dir.path() + "/lockstep");
  const CommandResult result = RunCommand({dir.path() + "/lockstep", "bench", "gpu"}, 20);
  EXPECT_EQ(result.exit_code, kExitEnvironment);
  EXPECT_THAT(result.err, HasSubstr("gpu_check is not built: it needs the CUDA toolkit"));
}

}  // namespace
}  // namespace lockstep
