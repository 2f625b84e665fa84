// Engine CUDA from the spec to the last hash, with real processes that map each other's memory:
// host memory and threads stand in for GPUs. The programs are linked into the folder where that
// engine is, and find it there.
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

constexpr char kSpec[] = R"(name: "cuda" model { mlp { layers: [64, 48, 10] } } data { digits {} }
train { global_batch: 60 steps: 3 optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } }
blocks: 1 workers: 3 reduction_order: EXACT
variant { name: "ring" all_reduce { algorithm: RING } }
variant { name: "kernel-ring" all_reduce { engine: CUDA channels: 2 } }
variant { name: "kernel-auto" all_reduce { engine: CUDA algorithm: AUTO channels: 2 } }
)";

class CudaRunTest : public testing::Test {
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
  static std::string Dir() { return BinDir() + "/fake_cuda"; }

  CommandResult Run(const std::string& gpus, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words = {"/usr/bin/env",
                                      "LOCKSTEP_TEST_GPUS=" + gpus,
                                      Dir() + "/lockstep",
                                      "compare",
                                      SpecFile(dir_, kSpec),
                                      "--out",
                                      Out(),
                                      "--plain"};
    words.insert(words.end(), flags.begin(), flags.end());
    return RunCommand(words, 60);
  }
  std::string Out() const { return dir_.path() + "/out"; }

 private:
  const TemporaryDir dir_;
};

TEST_F(CudaRunTest, ExactSumsOfProcessesEndWithTheBitsOfTheRing) {
  const CommandResult result = Run("3");
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto run = ReadRunJson(Out() + "/run.json");
  ASSERT_THAT(run, IsOk());
  for (const char* variant : {"kernel-ring", "kernel-auto"}) {
    EXPECT_EQ(VariantOf(*run, variant).final_hash(), VariantOf(*run, "ring").final_hash());
    EXPECT_THAT(VariantOf(*run, variant).label(), HasSubstr("CUDA kernels"));
  }
}

TEST_F(CudaRunTest, WorkersMayTakeTurnsOnOneGpuForCorrectnessOnly) {
  const CommandResult result =
      Run("1", {"--set", "variant[kernel-ring].all_reduce.cuda.share_gpu=true", "--only", "ring",
                "--only", "kernel-ring"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto run = ReadRunJson(Out() + "/run.json");
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(VariantOf(*run, "kernel-ring").final_hash(), VariantOf(*run, "ring").final_hash());
  EXPECT_THAT(VariantOf(*run, "kernel-ring").label(), HasSubstr("ranks share a GPU"));
  EXPECT_TRUE(VariantOf(*run, "kernel-ring").time_shared());
}

TEST_F(CudaRunTest, MoreWorkersThanGpusAreRefusedBeforeAnythingStarts) {
  const CommandResult result = Run("2");
  EXPECT_EQ(result.exit_code, kExitEnvironment) << result.out;
  EXPECT_THAT(result.err, HasSubstr("variant \"kernel-ring\": cuda: 3 ranks on 2 GPUs"));
  EXPECT_FALSE(fs::exists(Out()));
}

}  // namespace
}  // namespace lockstep
