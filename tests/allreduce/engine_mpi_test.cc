// The engine over Open MPI: real processes under mpirun, mpi_rank.cc each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/engine.h"
#include "tests/support/places.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kMpirun[] = "/usr/bin/mpirun";

class MpiTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const absl::Status here = CheckEngine(Engine::kMpi, BinDir());
    if (!here.ok()) GTEST_SKIP() << here.message();
    if (access(kMpirun, X_OK) != 0) GTEST_SKIP() << "mpirun is not here";
    std::string path = testing::TempDir() + "/mpi-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
  }
  void TearDown() override {
    if (!dir_.empty()) std::filesystem::remove_all(dir_);
  }

  // [rank]: "CODE TEXT" of its call.
  std::vector<std::string> Run(const std::string& scenario) {
    const std::string command = absl::StrCat(
        "timeout 60 ", kMpirun, geteuid() == 0 ? " --allow-run-as-root" : "",
        " --oversubscribe --mca pml ob1 --mca mpi_yield_when_idle 1 --mca btl vader,self -n ",
        GetParam(), " ", BinDir(), "/mpi_rank ", dir_, " ", scenario, " >", dir_, "/log 2>&1");
    exit_code_ = WEXITSTATUS(std::system(command.c_str()));
    std::vector<std::string> statuses;
    for (int rank = 0; rank < GetParam(); ++rank) {
      statuses.push_back(Read(absl::StrCat(dir_, "/status.", rank)));
    }
    return statuses;
  }
  std::string Log() const { return Read(dir_ + "/log"); }
  int exit_code() const { return exit_code_; }

 private:
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string dir_;
  int exit_code_ = -1;
};
INSTANTIATE_TEST_SUITE_P(Ranks, MpiTest, testing::Values(2, 3),
                         [](const auto& param) { return absl::StrCat("n", param.param); });

TEST_P(MpiTest, EveryCollectiveOfEveryDtypeIsRight) {
  EXPECT_THAT(Run("right"), Each(StartsWith("0 "))) << Log();
  EXPECT_EQ(exit_code(), 0) << Log();
}

TEST_P(MpiTest, AMismatchIsAnErrorOnEveryRankThatNamesBothSides) {
  EXPECT_THAT(Run("mismatch"),
              Each(AllOf(StartsWith("3 "), HasSubstr("count 1000"), HasSubstr("count 2000"))))
      << Log();
}

TEST_P(MpiTest, ARankThatDoesNotCallIsNamedWithinTheTimeout) {
  const std::vector<std::string> statuses = Run("late");
  for (int rank = 0; rank < GetParam(); ++rank) {
    if (rank == 1) continue;
    EXPECT_THAT(statuses[static_cast<size_t>(rank)],
                AllOf(StartsWith("4 "), HasSubstr("missing: rank 1")))
        << Log();
  }
}

// MPI's own end waits for all ranks without a bound.
TEST_P(MpiTest, LeavingDoesNotWaitForARankThatStays) {
  EXPECT_THAT(Run("leaves_late"), Each(StartsWith("0 "))) << Log();
}

TEST_P(MpiTest, AnotherNumberOfProcessesIsRefusedBeforeMpiStarts) {
  EXPECT_THAT(Run("size"), Each(AllOf(StartsWith("9 "), HasSubstr("mpirun started")))) << Log();
}

}  // namespace
}  // namespace lockstep
