// The kernels behind a communicator, in each layout, over a stand-in for CUDA's runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/exact.h"
#include "base/status.h"
#include "tests/allreduce/engine_checks.h"
#include "tests/allreduce/gpu/gpu_group.h"
#include "tests/support/status_matchers.h"

namespace lockstep::gpu {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Values;

class CudaEngineTest : public testing::TestWithParam<GroupPlace> {
 protected:
  void SetUp() override { ResetSwitches(); }
  static int device_of(int rank) { return GetParam().where == Where::kOneGpu ? 0 : rank; }
};

std::string NameOfPlace(const testing::TestParamInfo<GroupPlace>& info) {
  return absl::StrCat(NameOf(info.param.where), "_", info.param.n, "_",
                      info.param.algorithm.empty() ? "default" : info.param.algorithm);
}

INSTANTIATE_TEST_SUITE_P(Places, CudaEngineTest,
                         Values(GroupPlace{Where::kOneGpu, 1}, GroupPlace{Where::kOneGpu, 3},
                                GroupPlace{Where::kGpus, 2}, GroupPlace{Where::kGpus, 3, "ring"},
                                GroupPlace{Where::kProcesses, 3},
                                GroupPlace{Where::kProcesses, 2, "double_tree"},
                                GroupPlace{Where::kProcesses, 2, "direct"}),
                         NameOfPlace);

TEST_P(CudaEngineTest, EveryCollectiveOfEveryDtypeIsRight) {
  GpuGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) -> absl::Status {
    RETURN_IF_ERROR(CheckReduction(&c, Dtype::kBf16, ReduceOp::kAvg, 1000));
    RETURN_IF_ERROR(CheckReduction(&c, Dtype::kU8, ReduceOp::kMax, 333));
    RETURN_IF_ERROR(CheckReduction(&c, Dtype::kI64, ReduceOp::kProd, 17));
    RETURN_IF_ERROR(CheckMoves(&c, Dtype::kU8, 1001));
    return CheckMoves(&c, Dtype::kF64, 3);
  }),
              Each(IsOk()));
}

// Longer than a packet's kernel, and than staging, by an odd number of elements.
TEST_P(CudaEngineTest, ALongCallGoesInPieces) {
  GpuGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) -> absl::Status {
    for (const int64_t count : {0, 1, 20'003, 40'003, 7}) {
      RETURN_IF_ERROR(CheckReduction(&c, Dtype::kF32, ReduceOp::kSum, count));
    }
    RETURN_IF_ERROR(CheckReduction(&c, Dtype::kU8, ReduceOp::kSum, 70'001));
    return CheckMoves(&c, Dtype::kU8, 300'001);
  }),
              Each(IsOk()));
}

TEST_P(CudaEngineTest, MinAndMaxKeepNanAndIntegersWrap) {
  if (GetParam().n == 1) GTEST_SKIP() << "one rank has nothing to compare";
  GpuGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) -> absl::Status {
    RETURN_IF_ERROR(CheckNanAndZero(&c));
    return CheckWrap(&c);
  }),
              Each(IsOk()));
}

TEST_P(CudaEngineTest, GroupsWorkBesideTheWhole) {
  if (GetParam().n == 1) GTEST_SKIP() << "no rank is left for a group";
  GpuGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return CheckGroup(&c); }),
              Each(IsOk()));
}

// On the GPU: where the rank's own kernel reads it, and where only staging is read by others.
TEST_P(CudaEngineTest, DataOnTheGpuStayThere) {
  GpuGroup group(GetParam());
  const int n = GetParam().n;
  EXPECT_THAT(group.Connected().Run([&](int rank, Communicator& c) -> absl::Status {
    constexpr int64_t kCount = 40'003;
    auto* const data = static_cast<float*>(AllocateOn(device_of(rank), kCount * 4));
    for (int64_t i = 0; i < kCount; ++i) data[i] = static_cast<float>((i + rank) % 5);
    RETURN_IF_ERROR(c.AllReduce(data, kCount, Dtype::kF32, ReduceOp::kAvg));
    for (int64_t i = 0; i < kCount; ++i) {
      float sum = 0;
      for (int other = 0; other < n; ++other) sum += static_cast<float>((i + other) % 5);
      if (data[i] != sum / static_cast<float>(n)) {
        return absl::DataLossError(absl::StrCat("element ", i, " is ", data[i]));
      }
    }
    data[0] = static_cast<float>(rank);
    RETURN_IF_ERROR(c.Broadcast(data, 1, Dtype::kF32, n - 1));
    return data[0] == static_cast<float>(n - 1) ? absl::OkStatus()
                                                : absl::DataLossError("not root's");
  }),
              Each(IsOk()));
}

// What another stream writes to the data is behind an event: nothing is read before it.
TEST_P(CudaEngineTest, DataAreReadBehindTheirEvent) {
  if (GetParam().n == 1) GTEST_SKIP() << "nothing is read";
  GpuGroup group(GetParam());
  const int n = GetParam().n;
  EXPECT_THAT(group.Connected().Run([&](int rank, Communicator& c) -> absl::Status {
    auto* const data = static_cast<float*>(AllocateOn(device_of(rank), 4));
    *data = -1;
    HostEvent written;
    std::atomic<bool> called = false;
    const int asked_before = Switches().asked_for_event;
    std::thread producer([&] {
      while (!called && Switches().asked_for_event < asked_before + 1) std::this_thread::yield();
      *data = static_cast<float>(rank);
      written.reached = true;
    });
    absl::Status status = c.StartAfter(&written);
    if (status.ok()) status = c.AllReduce(data, 1, Dtype::kF32, ReduceOp::kSum);
    called = true;
    producer.join();
    RETURN_IF_ERROR(status);
    const auto sum = static_cast<float>(n * (n - 1) / 2);
    if (*data != sum) return absl::DataLossError(absl::StrCat("the sum is ", *data));
    return SumOnes(c);  // the event was that of one call
  }),
              Each(IsOk()));
}

float Uneven(int rank, int64_t i) {
  const auto spread = static_cast<int>((i * 7 + rank * 13) % 40) - 20;
  return std::ldexp(1.0F + static_cast<float>((i + rank) % 97) / 128.0F, spread);
}

// The same bits as the host engine's, which sums in another order.
TEST_P(CudaEngineTest, ExactSumsHaveTheBitsOfEveryEngine) {
  constexpr std::array<int64_t, 2> kTensors = {1500, 333};
  const auto sum = [&](int rank, Communicator& c, std::vector<float>* values) {
    for (int64_t i = 0; i < kTensors[0] + kTensors[1]; ++i) values->push_back(Uneven(rank, i));
    ExactAllReduce exact(&c);
    return exact.Run(Dtype::kF32, values->data(), kTensors, /*divisor=*/1);
  };
  const auto n = static_cast<size_t>(GetParam().n);
  std::vector<std::vector<float>> ours(n);
  std::vector<std::vector<float>> kernels(n);
  GroupOptions options;
  options.n = GetParam().n;
  RankGroup host(options);
  EXPECT_THAT(host.Run([&](int rank, Communicator& c) {
    return sum(rank, c, &ours[static_cast<size_t>(rank)]);
  }),
              Each(IsOk()));
  GpuGroup group(GetParam());
  EXPECT_THAT(group.Connected().Run([&](int rank, Communicator& c) {
    return sum(rank, c, &kernels[static_cast<size_t>(rank)]);
  }),
              Each(IsOk()));
  EXPECT_EQ(ours, kernels);
}

// Of processes, their own stays, because others may have it open: the next group takes it over.
TEST_P(CudaEngineTest, LeavesNoMemoryBehind) {
  const bool stays = GetParam().where == Where::kProcesses;
  int after = Switches().memory;
  for (const bool first : {true, false}) {
    GpuGroup group(GetParam());
    EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return SumOnes(c); }),
                Each(IsOk()));
    EXPECT_GT(Switches().memory, after);
    group.Destroy();
    if (!stays || !first) {
      EXPECT_EQ(Switches().memory, after);
    }
    after = Switches().memory;
  }
}

class CudaTest : public testing::Test {
 protected:
  void SetUp() override { ResetSwitches(); }
};

TEST_F(CudaTest, SaysWhichKernelsItLaunches) {
  GpuGroup group({Where::kOneGpu, 2});
  group.Connected().Run([](int, Communicator& c) {
    EXPECT_THAT(c.Choice(4), AllOf(HasSubstr("packet up to 65536 B, then direct, 2 channels"),
                                   HasSubstr("2 ranks share GPU 0000:00:00.0")));
    return absl::OkStatus();
  });
}

// One launch for all ranks of one GPU; one for each rank where each has its own.
TEST_F(CudaTest, RanksOfOneGpuAreInOneLaunch) {
  GpuGroup one({Where::kOneGpu, 3});
  one.Connected().Run([](int, Communicator& c) { return SumOnes(c); });
  EXPECT_EQ(Switches().launches, 1);
  ResetSwitches();
  GpuGroup several({Where::kGpus, 3});
  several.Connected().Run([](int, Communicator& c) { return SumOnes(c); });
  EXPECT_EQ(Switches().launches, 3);
}

// All blocks have to be resident: five ranks of a double tree have 20 for each channel.
TEST_F(CudaTest, AsManyChannelsAsFitOnTheGpuAreTheDefault) {
  for (const auto& expected : {std::pair{5, "6 channels"}, {8, "4 channels"}}) {
    GpuGroup group({Where::kOneGpu, expected.first, "double_tree", 20'000, /*channels=*/0});
    EXPECT_THAT(group.Connected().Run([&](int, Communicator& c) {
      EXPECT_THAT(c.Choice(4), HasSubstr(expected.second));
      return SumOnes(c);
    }),
                Each(IsOk()));
  }
  GpuGroup alone({Where::kProcesses, 3, "double_tree", 20'000, /*channels=*/0});
  alone.Connected().Run([&](int, Communicator& c) {
    EXPECT_THAT(c.Choice(4), HasSubstr("16 channels"));
    return absl::OkStatus();
  });
}

TEST_F(CudaTest, OneRankNamesItsMemoryToNobody) {
  GpuGroup one({Where::kProcesses, 1});
  one.Connected();
  EXPECT_EQ(Switches().handles, 0);
  GpuGroup two({Where::kProcesses, 2, "ring"});
  two.Connected();
  EXPECT_EQ(Switches().handles, 4);  // staging and slots
}

// A peer's kernel may still write there.
TEST_F(CudaTest, AProcessThatLeavesAloneKeepsItsMemory) {
  GpuGroup group({Where::kProcesses, 2, "ring", /*sync_timeout_ms=*/600});
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) { return SumOnes(c); }), Each(IsOk()));
  const int during = Switches().memory;
  group.Destroy(0);
  EXPECT_EQ(Switches().memory, during - 3);  // the other's two are closed, its blocks gone
  group.Destroy(1);
  GpuGroup next({Where::kProcesses, 2, "ring"});
  EXPECT_THAT(next.Connected().Run([](int, Communicator& c) { return SumOnes(c); }), Each(IsOk()));
}

TEST_F(CudaTest, AnEventThatDoesNotComeEndsTheCallAndIsNamed) {
  GpuGroup group({Where::kProcesses, 2, "ring", /*sync_timeout_ms=*/600});
  HostEvent written;
  EXPECT_THAT(group.Connected().Run([&](int rank, Communicator& c) -> absl::Status {
    if (rank == 1) RETURN_IF_ERROR(c.StartAfter(&written));
    return SumOnes(c);
  }),
              Each(StatusIs(absl::StatusCode::kDeadlineExceeded, "all_reduce")));
}

TEST_F(CudaTest, EnginesOfTheHostRefuseAnEvent) {
  GroupOptions options;
  options.n = 1;
  RankGroup host(options);
  EXPECT_THAT(host.Run([](int, Communicator& c) { return c.StartAfter(&c); }),
              Each(StatusIs(absl::StatusCode::kInvalidArgument, "data of the host alone")));
}

TEST_F(CudaTest, SumsOfF64AreRefusedByEveryRank) {
  GpuGroup group({Where::kProcesses, 2});
  EXPECT_THAT(group.Connected().Run([](int, Communicator& c) {
    double value = 1;
    return c.AllReduce(&value, 1, Dtype::kF64, ReduceOp::kSum);
  }),
              Each(StatusIs(absl::StatusCode::kInvalidArgument, "no kernel for f64")));
}

}  // namespace
}  // namespace lockstep::gpu
