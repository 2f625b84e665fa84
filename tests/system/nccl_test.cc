// Engine NCCL from the spec to the last hash, with real processes: a library of ours stands in for
// NCCL and host memory for GPUs. The programs are linked into the folder where that engine is,
// because they look for it beside themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "experiments/analyse/run_json.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"
#include "tests/system/comparison.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kSpec[] = R"(name: "nccl" model { mlp { layers: [64, 48, 10] } } data { digits {} }
train { global_batch: 60 steps: 3 optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } }
blocks: 1 workers: 3 reduction_order: EXACT
variant { name: "ring" all_reduce { algorithm: RING } }
variant { name: "nccl" all_reduce { engine: NCCL nccl { algo: TREE proto: SIMPLE } } }
)";

class NcclRunTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"lockstep", "worker"}) {
      const fs::path link = fs::path(Dir()) / program;
      fs::remove(link);
      fs::create_hard_link(fs::path(BinDir()) / program, link);
    }
  }
  void TearDown() override {
    for (const char* program : {"lockstep", "worker"}) fs::remove(fs::path(Dir()) / program);
  }
  static std::string Dir() { return BinDir() + "/fake_nccl"; }

  CommandResult Run(const std::vector<std::string>& variables,
                    const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {"/usr/bin/env"};
    argv.insert(argv.end(), variables.begin(), variables.end());
    argv.insert(argv.end(),
                {Dir() + "/lockstep", "compare", SpecFile(dir_, kSpec), "--out", Out(), "--plain"});
    argv.insert(argv.end(), more.begin(), more.end());
    return RunCommand(argv, 60);
  }
  RunFile Result() const {
    const auto run = ReadRunJson(Out() + "/run.json");
    EXPECT_THAT(run, IsOk());
    return run.ok() ? *run : RunFile();
  }
  std::string Out() const { return dir_.path() + "/out"; }
  static std::string Library() { return "LOCKSTEP_NCCL_LIB=" + Dir() + "/whole/libnccl.so.2"; }

 private:
  const TemporaryDir dir_;
};

TEST_F(NcclRunTest, ExactSumsOfProcessesEndWithTheBitsOfTheRing) {
  const CommandResult result = Run({Library()});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const RunFile run = Result();
  EXPECT_EQ(VariantOf(run, "nccl").final_hash(), VariantOf(run, "ring").final_hash());
  EXPECT_EQ(VariantOf(run, "nccl").label(), "All-reduce of NCCL, Tree, Simple");
  EXPECT_FALSE(VariantOf(run, "nccl").time_shared());
}

// CASES R58, with processes.
TEST_F(NcclRunTest, MoreWorkersThanGpusAreRefusedBeforeAnythingStarts) {
  const CommandResult result = Run({Library(), "LOCKSTEP_TEST_GPUS=1"});
  EXPECT_EQ(result.exit_code, kExitEnvironment);
  EXPECT_THAT(result.err, HasSubstr("variant \"nccl\": nccl: 3 ranks on 1 GPU"));
  EXPECT_FALSE(fs::exists(Out()));
}

TEST_F(NcclRunTest, WorkersShareAGpuWhereThatIsAskedForAndItIsSaid) {
  const CommandResult result = Run({Library(), "LOCKSTEP_TEST_GPUS=1"},
                                   {"--set", "variant[nccl].all_reduce.nccl.share_gpu=true"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const RunFile run = Result();
  EXPECT_EQ(VariantOf(run, "nccl").final_hash(), VariantOf(run, "ring").final_hash());
  EXPECT_TRUE(VariantOf(run, "nccl").time_shared());
  EXPECT_THAT(VariantOf(run, "nccl").label(), HasSubstr("correctness only"));
}

TEST_F(NcclRunTest, AMissingLibraryIsNamedBeforeAnythingStarts) {
  const CommandResult result = Run({"LOCKSTEP_NCCL_LIB=/nowhere/libnccl.so.2"});
  EXPECT_EQ(result.exit_code, kExitEnvironment);
  EXPECT_THAT(result.err, HasSubstr("the library is not here: /nowhere/libnccl.so.2"));
  EXPECT_THAT(result.err, HasSubstr("LOCKSTEP_NCCL_LIB"));
  EXPECT_FALSE(fs::exists(Out()));
}

TEST_F(NcclRunTest, AVariableThatIsNotTheVariantsIsOverruled) {
  const CommandResult result = Run({Library(), "NCCL_ALGO=Ring"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

}  // namespace
}  // namespace lockstep
