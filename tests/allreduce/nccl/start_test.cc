// What is said before NCCL starts: what is missing, who would share a GPU, who differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/nccl/api.h"
#include "base/status.h"
#include "tests/allreduce/nccl/nccl_group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;

class NcclStartTest : public testing::Test {
 protected:
  void SetUp() override { ResetSwitches(); }
  void TearDown() override { ResetSwitches(); }
  static NcclPlace With(const std::string& library) {
    NcclPlace place;
    place.library = library;
    return place;
  }
  static absl::Status Check(const NcclPlace& place, int ranks = 2) {
    return CheckEngine(Engine::kNccl, FakeDir(), place, ranks);
  }
};

TEST_F(NcclStartTest, AllIsHere) {
  EXPECT_THAT(Check(With(FakeLibrary("whole"))), IsOk());
  EXPECT_EQ(Switches().inits, 0);  // nothing was started
}

TEST_F(NcclStartTest, EachThingThatIsMissingHasItsOwnWords) {
  const std::string nowhere = "/nowhere/libnccl.so.2";
  EXPECT_THAT(Check(With(nowhere)), StatusIs(kRefused, "the library is not here: " + nowhere));
  EXPECT_THAT(Check(With(nowhere)), StatusIs(kRefused, "LOCKSTEP_NCCL_LIB"));
  const std::string old = FakeLibrary("old");
  EXPECT_THAT(Check(With(old)), StatusIs(kRefused, old + " is version 2.16.5, older than 2.18"));
  const std::string lacking = FakeLibrary("lacking");
  EXPECT_THAT(Check(With(lacking)), StatusIs(kRefused, lacking + " has no function ncclCommAbort"));
  const std::string other = FakeDir() + "/liblockstep_nccl.so";
  EXPECT_THAT(Check(With(other)), StatusIs(kRefused, other + " is not NCCL"));
  EXPECT_THAT(CheckEngine(Engine::kNccl, "/nowhere"), StatusIs(kRefused, "the CUDA toolkit"));
  Gpus().visible = 0;
  EXPECT_THAT(Check(With(FakeLibrary("whole"))), StatusIs(kRefused, "no CUDA device"));
}

TEST_F(NcclStartTest, OldVersionsAreReadAsTheyWereWritten) {
  EXPECT_EQ(nccl::VersionText(2804), "2.8.4");
  EXPECT_EQ(nccl::VersionText(22809), "2.28.9");
}

// CASES R58.
TEST_F(NcclStartTest, MoreRanksThanGpusAreRefusedWithCountsAndTheAlternative) {
  Gpus().visible = 1;
  NcclPlace place = With(FakeLibrary("whole"));
  EXPECT_THAT(Check(place, 4), StatusIs(kRefused, "4 ranks on 1 GPU"));
  EXPECT_THAT(Check(place, 4), StatusIs(kRefused, "share_gpu: true"));
  EXPECT_THAT(Check(place, 1), IsOk());
  place.share_gpu = true;
  EXPECT_THAT(Check(place, 4), IsOk());
}

TEST_F(NcclStartTest, RanksThatWouldShareAGpuAreNamedOnEveryRank) {
  Gpus().visible = 2;
  NcclGroup group(3);
  EXPECT_THAT(group.Connect(),
              Each(StatusIs(kRefused, "rank 0, rank 2 would share GPU 0000:00:00.0")));
  EXPECT_EQ(Switches().inits, 0);
}

TEST_F(NcclStartTest, RanksShareAGpuWhereThatIsAskedForAndItIsSaid) {
  Gpus().visible = 1;
  NcclGroup group(3);
  EXPECT_THAT(group.Connect([](int rank, EngineOptions* options) {
    options->nccl.share_gpu = true;
    options->nccl.variables = {absl::StrCat("NCCL_HOSTID=rank", rank)};
  }),
              Each(IsOk()));
  EXPECT_THAT(group.Run([](int, Communicator& c) {
    EXPECT_THAT(c.Choice(4), HasSubstr("3 ranks take turns on GPU 0000:00:00.0: correctness only"));
    return SumOnes(c);
  }),
              Each(IsOk()));
}

TEST_F(NcclStartTest, RanksThatShareAGpuNeedNamesOfTheirOwn) {
  Gpus().visible = 1;
  const auto connect = [](const std::vector<std::vector<std::string>>& variables) {
    NcclGroup group(2);
    return group.Connect([&](int rank, EngineOptions* options) {
      options->nccl.share_gpu = true;
      options->nccl.variables = variables[static_cast<size_t>(rank)];
    });
  };
  EXPECT_THAT(connect({{"NCCL_HOSTID=a"}, {}}),
              Each(StatusIs(kRefused, "rank 1 shares a GPU, and its process has no NCCL_HOSTID")));
  EXPECT_THAT(
      connect({{"NCCL_HOSTID=a"}, {"NCCL_HOSTID=a"}}),
      Each(StatusIs(kRefused, "rank 0 and rank 1 share a GPU, and both have NCCL_HOSTID=a")));
}

TEST_F(NcclStartTest, ARankWithoutWhatTheVariantAsksForSaysSo) {
  NcclGroup group(2);
  EXPECT_THAT(
      group.Connect([](int rank, EngineOptions* options) {
        options->nccl.required = {"NCCL_ALGO=Ring"};
        options->nccl.variables = {rank == 1 ? "NCCL_ALGO=Tree" : "NCCL_ALGO=Ring"};
      }),
      Each(StatusIs(kRefused,
                    "the variant asks for NCCL_ALGO=Ring, this process has NCCL_ALGO=Tree")));
}

TEST_F(NcclStartTest, DifferentVariablesAreNamedOnEveryRank) {
  NcclGroup group(3);
  EXPECT_THAT(group.Connect([](int rank, EngineOptions* options) {
    if (rank == 2) options->nccl.variables = {"NCCL_MAX_NCHANNELS=2"};
  }),
              Each(StatusIs(kRefused,
                            "rank 0 has no NCCL_MAX_NCHANNELS, rank 2 has NCCL_MAX_NCHANNELS=2")));
  EXPECT_EQ(Switches().inits, 0);
}

TEST_F(NcclStartTest, ARankWithoutTheLibraryTellsTheOthers) {
  NcclGroup group(2);
  EXPECT_THAT(group.Connect([](int rank, EngineOptions* options) {
    if (rank == 1) options->nccl.library = "/nowhere/libnccl.so.2";
  }),
              Each(StatusIs(kRefused, "/nowhere/libnccl.so.2")));
}

}  // namespace
}  // namespace lockstep
