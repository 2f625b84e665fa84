// The kernels' engine when something is wrong: each refusal before the first call has its own
// words; each failure later ends every rank within its time, says why and who.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/allreduce/gpu/gpu_group.h"
#include "tests/support/status_matchers.h"

namespace lockstep::gpu {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Lt;

constexpr int64_t kShortMs = 600;
constexpr int64_t kToldMs = 1'500;  // kernels that are told to end; nobody waits 2 s for their end
constexpr int64_t kSoonMs = 4'000;  // a deadline of kShortMs and what follows it

class CudaFailureTest : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override { ResetSwitches(); }
  void TearDown() override { ResetSwitches(); }
  static GroupPlace Short(int64_t timeout_ms = kShortMs) {
    return {GetParam(), 3, "ring", timeout_ms};
  }
  static int64_t Since(const GpuGroup& group, int64_t start_ns) {
    return (group.clock().NowNs() - start_ns) / kNsPerMs;
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, CudaFailureTest,
                         testing::Values(Where::kOneGpu, Where::kGpus, Where::kProcesses),
                         [](const auto& param) { return std::string(NameOf(param.param)); });

TEST_P(CudaFailureTest, AMismatchIsAnErrorOnEveryRankThatNamesBothSides) {
  GpuGroup group(Short(20'000));
  const auto statuses = group.Connected().Run(
      [](int rank, Communicator& c) { return SumOnes(c, rank == 1 ? 2000 : 1000); });
  EXPECT_THAT(statuses, Each(AllOf(StatusIs(absl::StatusCode::kInvalidArgument, "count 1000"),
                                   StatusIs(absl::StatusCode::kInvalidArgument, "count 2000"))));
}

TEST_P(CudaFailureTest, ARankThatNeverCallsIsNamedWithinTheTimeout) {
  GpuGroup group(Short());
  group.Connected();
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run(
      [](int rank, Communicator& c) { return rank == 1 ? absl::OkStatus() : SumOnes(c); });
  EXPECT_THAT(Since(group, start_ns), Lt(kSoonMs));
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kDeadlineExceeded, "missing: rank 1"));
  EXPECT_THAT(BlamedBy(statuses[0]), ElementsAre("rank 1"));
}

// All ranks are in the call, and one's blocks do not run: the kernels say whom they wait for, no
// rank gets a result, and the group is dead.
TEST_P(CudaFailureTest, BlocksThatDoNotRunEndEveryRankWithinTheTimeout) {
  GpuGroup group(Short());
  group.Connected();
  Switches().missing_rank = 1;
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([](int, Communicator& c) {
    std::vector<float> data(1000, 1.0F);
    absl::Status status = c.AllReduce(data.data(), 1000, Dtype::kF32, ReduceOp::kSum);
    EXPECT_THAT(data, Each(1.0F));
    return status;
  });
  EXPECT_THAT(Since(group, start_ns), AllOf(Ge(kShortMs / 2), Lt(kSoonMs)));
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kDeadlineExceeded, "all_reduce")));
  // Of processes the first to give up knows its own ranks alone: it names rank 1, or says where it
  // waited. All repeat what the first one said.
  const auto names_it = StatusIs(absl::StatusCode::kDeadlineExceeded, "cuda: ring: rank 1 did not");
  const auto says_where = StatusIs(absl::StatusCode::kDeadlineExceeded, "where it may wait, too");
  if (GetParam() == Where::kProcesses) {
    EXPECT_THAT(statuses, AnyOf(Each(names_it), Each(says_where)));
  } else {
    EXPECT_THAT(statuses, Each(names_it));
  }
  Switches().missing_rank = -1;
  EXPECT_THAT(group.Run([](int, Communicator& c) { return SumOnes(c); }),
              Each(StatusIs(absl::StatusCode::kDeadlineExceeded, "all_reduce")));
}

TEST_P(CudaFailureTest, AnAbortEndsKernelsThatWait) {
  GpuGroup group(Short(20'000));
  group.Connected();
  Switches().missing_rank = 2;
  const int64_t start_ns = group.clock().NowNs();
  std::thread stopper([&] {
    const int all = GetParam() == Where::kOneGpu ? 1 : 3;
    while (Switches().launches < all) std::this_thread::yield();  // all are in it
    group.abort().Request(absl::CancelledError("stopped"));
  });
  const auto statuses = group.Run([](int, Communicator& c) { return SumOnes(c); });
  stopper.join();
  EXPECT_THAT(Since(group, start_ns), Lt(kToldMs));
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kCancelled, "stopped")));
}

// Once staging went while the kernel still wrote to it.
TEST_P(CudaFailureTest, AKernelThatDoesNotEndKeepsTheMemoryItWritesTo) {
  if (GetParam() == Where::kProcesses) GTEST_SKIP() << "there memory stays in any case";
  int during = 0;
  {
    GpuGroup group(Short());
    group.Connected();
    during = Switches().memory;
    Switches().deaf_rank = 1;
    EXPECT_THAT(group.Run([](int, Communicator& c) { return SumOnes(c); }),
                Each(StatusIs(absl::StatusCode::kDeadlineExceeded, "all_reduce")));
  }
  EXPECT_EQ(Switches().memory, during);
}

TEST_P(CudaFailureTest, AGpuThatDoesNotTellWhoseDataTheyAreIsAnError) {
  GpuGroup group(Short(20'000));
  group.Connected();
  Switches().unknown_on = 0;
  EXPECT_THAT(group.Run([](int, Communicator& c) { return SumOnes(c); }),
              Each(StatusIs(absl::StatusCode::kUnavailable, "a sick GPU")));
}

TEST_P(CudaFailureTest, ALaunchThatIsRefusedEndsEveryRankAtOnce) {
  GpuGroup group(Short(20'000));
  group.Connected();
  Switches().failing_launch = GetParam() == Where::kOneGpu ? 0 : 1;
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([](int, Communicator& c) { return SumOnes(c); });
  EXPECT_THAT(Since(group, start_ns), Lt(kSoonMs));
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kUnavailable, "a broken GPU")));
}

// A new group, with new memory, works where the one before has failed.
TEST_P(CudaFailureTest, AGroupIsMadeAnewAfterAFailure) {
  Switches().missing_rank = 0;
  GpuGroup dead(Short());
  EXPECT_THAT(dead.Connected().Run([](int, Communicator& c) { return SumOnes(c); }),
              Each(StatusIs(absl::StatusCode::kDeadlineExceeded, "all_reduce")));
  dead.Destroy();
  Switches().missing_rank = -1;
  GpuGroup next(Short(20'000));
  EXPECT_THAT(next.Connected().Run([](int, Communicator& c) { return SumOnes(c); }), Each(IsOk()));
}

TEST_P(CudaFailureTest, WithoutADriverOrAGpuEveryRankSaysSo) {
  Switches().driver = 0;
  EXPECT_THAT(GpuGroup(Short(20'000)).Connect(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "no NVIDIA driver")));
  Switches().driver = 12'000;
  EXPECT_THAT(GpuGroup(Short(20'000)).Connect(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "driver is too old")));
  Switches().driver = 13'000;
  Switches().devices = 0;
  EXPECT_THAT(GpuGroup(Short(20'000)).Connect(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "no CUDA device")));
}

TEST_P(CudaFailureTest, TooFewResidentBlocksAreRefusedBeforeTheFirstCall) {
  Switches().fitting = 1;
  EXPECT_THAT(GpuGroup(Short(20'000)).Connect(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "which holds 1 at once")));
}

TEST_P(CudaFailureTest, MemoryThatIsNotThereEndsEveryRank) {
  Switches().no_memory_on = GetParam() == Where::kOneGpu ? 0 : 1;
  EXPECT_THAT(GpuGroup(Short(20'000)).Connect(),
              Each(StatusIs(absl::StatusCode::kUnavailable, "out of memory")));
}

class CudaLayoutTest : public testing::Test {
 protected:
  void SetUp() override { ResetSwitches(); }
  void TearDown() override { ResetSwitches(); }
};

TEST_F(CudaLayoutTest, GpusThatDoNotReachEachOtherAreNamed) {
  Switches().unreachable = 1;
  EXPECT_THAT(GpuGroup({Where::kGpus, 3}).Connect(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "GPU 0 can't reach the memory of GPU 1")));
}

TEST_F(CudaLayoutTest, ProcessesDoNotShareAGpuUnasked) {
  Switches().devices = 2;
  EXPECT_THAT(GpuGroup({Where::kProcesses, 3}).Connect(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                            "rank 0, rank 2 would share GPU 0000:00:00.0")));
  GpuGroup asked({Where::kProcesses, 3});
  EXPECT_THAT(asked.Connect([](int, EngineOptions* options) { options->cuda.share_gpu = true; }),
              Each(IsOk()));
  EXPECT_THAT(asked.Run([](int, Communicator& c) {
    EXPECT_THAT(c.Choice(4), testing::HasSubstr("correctness only"));
    return SumOnes(c);
  }),
              Each(IsOk()));
}

TEST_F(CudaLayoutTest, ASystemThatLetsNobodyShareMemoryIsToldFromABrokenGpu) {
  Switches().sharing_error = runtime_error::kNotSupported;
  EXPECT_THAT(GpuGroup({Where::kProcesses, 2}).Connect(),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "use engine NCCL")));
  Switches().sharing_error = runtime_error::kStaleHandle;
  EXPECT_THAT(GpuGroup({Where::kProcesses, 2}).Connect(),
              Each(StatusIs(absl::StatusCode::kUnavailable, "ended or freed it")));
}

TEST_F(CudaLayoutTest, RanksThatWouldLaunchDifferentKernelsAreNamed) {
  EXPECT_THAT(GpuGroup({Where::kProcesses, 2}).Connect([](int rank, EngineOptions* options) {
    options->cuda.algorithm = rank == 0 ? "ring" : "tree";
  }),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "rank 1 would launch tree")));
}

TEST_F(CudaLayoutTest, SomeRanksOfAProcessBesideOthersAreRefused) {
  EXPECT_THAT(GpuGroup({Where::kGpus, 3}).Connect([](int rank, EngineOptions* options) {
    if (rank == 2) options->cuda.local = nullptr;
  }),
              Each(StatusIs(absl::StatusCode::kFailedPrecondition, "rank 2 is alone")));
}

TEST_F(CudaLayoutTest, CheckedBeforeAnythingStarts) {
  const std::string dir = BinDir() + "/fake_cuda";
  Switches().devices = 2;
  EXPECT_THAT(CheckEngine(Engine::kCuda, dir, {}, 2), IsOk());
  EXPECT_THAT(CheckEngine(Engine::kCuda, dir, {}, 3),
              StatusIs(absl::StatusCode::kFailedPrecondition, "3 ranks on 2 GPUs"));
  EXPECT_THAT(CheckEngine(Engine::kCuda, dir, {}, 3, {.algorithm = {}, .share_gpu = true}), IsOk());
  EXPECT_THAT(CheckEngine(Engine::kCuda, dir, {}, 17, {.algorithm = {}, .share_gpu = true}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "17 ranks, there may be 1 to 16"));
  EXPECT_THAT(CheckEngine(Engine::kCuda, "/nowhere"),
              StatusIs(absl::StatusCode::kFailedPrecondition, "engine cuda is not here"));
}

}  // namespace
}  // namespace lockstep::gpu
