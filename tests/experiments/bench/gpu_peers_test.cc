// `lockstep bench allreduce` with NCCL and our kernels beside the others: host memory stands in for
// GPUs, and a library of ours for NCCL. The programs are linked into the folders where those
// engines are, because they look for them beside themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "experiments/bench/bench_json.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;
namespace fs = std::filesystem;

class GpuPeersTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const char* const program : kPrograms) {
      const fs::path link = fs::path(Dir()) / program;
      fs::remove(link);
      fs::create_hard_link(fs::path(BinDir()) / program, link);
    }
  }
  void TearDown() override {
    for (const char* const program : kPrograms) fs::remove(fs::path(Dir()) / program);
  }
  static std::string Dir() { return absl::StrCat(BinDir(), "/fake_", GetParam()); }

  static CommandResult Run(const std::string& program_dir, const std::string& gpus) {
    return RunCommand({"/usr/bin/env",
                       "LOCKSTEP_TEST_GPUS=" + gpus,
                       "LOCKSTEP_TEST_BLOCKS=8",
                       "LOCKSTEP_NCCL_LIB=" + Dir() + "/whole/libnccl.so.2",
                       program_dir + "/lockstep",
                       "bench",
                       "allreduce",
                       "--sizes",
                       "4,64KiB",
                       "--ranks",
                       "3",
                       "--rounds",
                       "1",
                       "--links",
                       "tcp",
                       "--channels",
                       "1",
                       "--algorithms",
                       "ring",
                       "--peers",
                       GetParam(),
                       "--json"},
                      100);
  }

 private:
  static constexpr const char* kPrograms[] = {"lockstep", "allreduce_rank"};
};
INSTANTIATE_TEST_SUITE_P(All, GpuPeersTest, testing::Values("nccl", "cuda"),
                         [](const auto& param) { return param.param; });

TEST_P(GpuPeersTest, EveryWayOfItIsARowAndRight) {
  const CommandResult result = Run(Dir(), "3");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto file = BenchFromJson(result.out);
  ASSERT_THAT(file, IsOk());
  std::set<std::string> seen;
  for (const BenchRow& row : file->rows()) {
    EXPECT_TRUE(row.correct()) << row.DebugString();
    if (row.engine() != GetParam()) continue;
    EXPECT_EQ(row.link(), "gpu");
    EXPECT_THAT(row.version(), HasSubstr(GetParam() == "nccl" ? "NCCL" : "CUDA kernels"));
    seen.insert(absl::StrCat(row.algorithm(), " ", row.setting(), " ", row.bytes()));
  }
  const std::vector<std::string> kernels = {"default  65536", "ring  4", "tree  4",
                                            "double_tree  65536", "direct  65536"};
  const std::vector<std::string> nccl = {"default  65536", "default NCCL_ALGO=Ring 4",
                                         "default NCCL_ALGO=Tree 65536"};
  EXPECT_THAT(seen, IsSupersetOf(GetParam() == "nccl" ? nccl : kernels));
}

TEST_P(GpuPeersTest, TooFewGpusAreRefusedBeforeAnythingStarts) {
  const CommandResult result = Run(Dir(), "2");
  EXPECT_EQ(result.exit_code, kExitEnvironment) << result.out;
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("bench: --peers ", GetParam(), ": ", GetParam(),
                                                 ": 3 ranks on 2 GPUs")));
}

// As this machine is.
TEST_P(GpuPeersTest, WithoutAGpuItIsSaidWhatIsMissing) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "there may be a GPU here";
  const CommandResult result = Run(BinDir(), "3");
  EXPECT_EQ(result.exit_code, kExitEnvironment) << result.out;
  EXPECT_THAT(result.err, HasSubstr("bench: --peers " + GetParam()));
}

}  // namespace
}  // namespace lockstep
