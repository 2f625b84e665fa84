// Device GPU from the spec to the last hash, with real processes: host memory stands in for GPUs, a
// library of ours for cuBLAS. The programs are linked into the folder where that stand-in is,
// because they look for it beside themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "experiments/analyse/run_json.h"
#include "experiments/gpu_check/quickstart.h"
#include "tests/support/places.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"
#include "tests/system/comparison.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kSpec[] = R"(name: "gpu" model { mlp { layers: [64, 48, 10] } } data { digits {} }
train { global_batch: 60 steps: 3 optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } } }
blocks: 1 workers: 3 reduction_order: EXACT device: GPU
variant { name: "ring" all_reduce { algorithm: RING } }
variant { name: "shm" all_reduce { algorithm: DIRECT link: SHM } }
variant { name: "ps" ps { servers: 2 } }
variant { name: "ps-on-workers" ps { optimizer_on: WORKER } }
)";
constexpr const char* kPrograms[] = {"lockstep", "worker", "ps_server"};

class GpuRunTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : kPrograms) {
      fs::remove(fs::path(Dir()) / program);
      fs::create_hard_link(fs::path(BinDir()) / program, fs::path(Dir()) / program);
    }
  }
  void TearDown() override {
    for (const char* program : kPrograms) fs::remove(fs::path(Dir()) / program);
  }
  static std::string Dir() { return BinDir() + "/fake_gpu"; }

  CommandResult Run(const std::vector<std::string>& variables,
                    const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words = {"/usr/bin/env", "LOCKSTEP_CUBLAS_LIB=" + Cublas("whole")};
    words.insert(words.end(), variables.begin(), variables.end());
    words.insert(words.end(), {Dir() + "/lockstep", "compare", SpecFile(dir_, kSpec), "--out",
                               Out(), "--plain"});
    words.insert(words.end(), flags.begin(), flags.end());
    return RunCommand(words, 60);
  }
  RunFile Result() const {
    const auto run = ReadRunJson(Out() + "/run.json");
    EXPECT_THAT(run, IsOk());
    return run.ok() ? *run : RunFile();
  }
  // Nothing was started, and `why` is said.
  void ExpectRefused(const CommandResult& result, const std::string& why) const {
    EXPECT_EQ(result.exit_code, kExitEnvironment) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_FALSE(fs::exists(Out()));
  }
  static std::string Cublas(const std::string& kind) {
    return Dir() + "/" + kind + "/libcublas.so";
  }
  std::string Out() const { return dir_.path() + "/out"; }
  const TemporaryDir& dir() const { return dir_; }

 private:
  const TemporaryDir dir_;
};

TEST_F(GpuRunTest, EveryWayEndsWithOneHashAndSaysWhatItComputedWith) {
  // The flag goes before the variable, in the workers, too.
  const CommandResult result =
      Run({"LOCKSTEP_CUBLAS_LIB=/nowhere"}, {"--cublas-lib", Cublas("whole")});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const RunFile run = Result();
  for (const VariantResult& variant : run.runs()) {
    EXPECT_EQ(variant.final_hash(), VariantOf(run, "ring").final_hash()) << variant.id();
    EXPECT_FALSE(variant.time_shared());
  }
  EXPECT_THAT(run.experiment().device(), HasSubstr("GPU Host 0, math STRICT, cuBLAS 13.1.1"));
}

TEST_F(GpuRunTest, WorkersTakeTurnsOnAGpuWhereThatIsAskedFor) {
  const CommandResult result =
      Run({"LOCKSTEP_TEST_GPUS=1"},
          {"--set", "share_gpu=true", "--set", "math=TF32", "--only", "ring", "--only", "ps"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const RunFile run = Result();
  EXPECT_TRUE(VariantOf(run, "ps").time_shared());
  EXPECT_EQ(run.experiment().device(), "GPU Host 0, math TF32, cuBLAS 13.1.1");
}

TEST_F(GpuRunTest, WhatIsMissingIsNamedBeforeAnythingStarts) {
  ExpectRefused(Run({"LOCKSTEP_TEST_DRIVER=0"}), "no NVIDIA driver on this machine");
  ExpectRefused(Run({"LOCKSTEP_TEST_DRIVER=11080"}), "the NVIDIA driver is too old");
  ExpectRefused(Run({"LOCKSTEP_TEST_GPUS=0"}), "no CUDA device");
  ExpectRefused(Run({"LOCKSTEP_TEST_GPUS=2"}), "3 workers on 2 GPUs");
  ExpectRefused(Run({}, {"--cublas-lib", "/nowhere/libcublas.so"}), "/nowhere/libcublas.so");
}

// What a machine with a GPU runs in gpu_check.
TEST_F(GpuRunTest, TheQuickstartEndsWithOneHashAndNamesWhatIsMissing) {
  const std::string cublas = Cublas("whole");
  const ScopedVariable library("LOCKSTEP_CUBLAS_LIB", cublas.c_str());
  const ScopedVariable gpus("LOCKSTEP_TEST_GPUS", "1");
  gpu::CheckReport report;
  gpu::RunQuickstart({.program_dir = Dir(), .limit = std::chrono::seconds(60)}, &report);
  EXPECT_THAT(report.wrong, testing::IsEmpty());
  EXPECT_EQ(report.cases, 2);
  EXPECT_THAT(
      report.notes,
      ElementsAre(HasSubstr("ring: ends with hash"), HasSubstr("ps_sync: ends with hash"),
                  HasSubstr("cuda: skipped: lockstep compare: variant \"cuda\": engine cuda"),
                  HasSubstr("nccl: skipped: lockstep compare: variant \"nccl\": engine nccl")));
}

// The programs where they were built, with what this machine has.
TEST_F(GpuRunTest, WithoutADriverTheBuiltProgramRefusesBeforeAnythingStarts) {
  if (fs::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "there is a driver";
  const CommandResult result = RunCommand(
      {BinDir() + "/lockstep", "compare", SpecFile(dir(), kSpec), "--out", Out(), "--plain"}, 60);
  const bool built = fs::exists(BinDir() + "/liblockstep_math.so");
  ExpectRefused(result,
                built ? "device GPU: no NVIDIA driver on this machine" : "device GPU is not built");
}

}  // namespace
}  // namespace lockstep
