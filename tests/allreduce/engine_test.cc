// Other libraries' engines: Gloo with a thread a rank, and what is the same for all of them. MPI
// has one rank a process: engine_mpi_test.cc.
#include "allreduce/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/status.h"
#include "tests/allreduce/engine_checks.h"
#include "tests/allreduce/group.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::Lt;

bool GlooIsHere() { return CheckEngine(Engine::kGloo, BinDir()).ok(); }

// n ranks of Gloo over a TCP control mesh, a thread each.
class GlooGroup {
 public:
  explicit GlooGroup(int n, int64_t sync_timeout_ms = 10'000) : n_(n) {
    const Limits limits = TestLimits(sync_timeout_ms);
    std::vector<std::unique_ptr<Link>> links = ConnectTcpLinks(n, 1, limits, clock_, abort_);
    communicators_.resize(static_cast<size_t>(n));
    OnEachRank(n, [&](int rank) {
      EngineOptions options;
      options.engine = Engine::kGloo;
      options.library_dir = BinDir();
      options.host = "127.0.0.1";
      options.limits = limits;
      absl::StatusOr<std::unique_ptr<Communicator>> made = MakeEngineCommunicator(
          options, std::move(links[static_cast<size_t>(rank)]), clock_, abort_);
      CHECK(made.ok()) << made.status();
      communicators_[static_cast<size_t>(rank)] = *std::move(made);
    });
  }
  template <typename Body>
  std::vector<absl::Status> Run(const Body& body) {
    std::vector<absl::Status> statuses(static_cast<size_t>(n_));
    OnEachRank(n_, [&](int rank) {
      statuses[static_cast<size_t>(rank)] = body(rank, *communicators_[static_cast<size_t>(rank)]);
    });
    return statuses;
  }
  void Destroy(int rank) { communicators_[static_cast<size_t>(rank)].reset(); }
  const Clock& clock() const { return clock_; }
  Abort& abort() { return abort_; }

 private:
  const int n_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

class GlooTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!GlooIsHere()) GTEST_SKIP() << "Gloo is not here: " << CheckEngine(Engine::kGloo, BinDir());
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, GlooTest, testing::Values(1, 2, 3, 4),
                         [](const auto& param) { return absl::StrCat("n", param.param); });

TEST_P(GlooTest, EveryCollectiveOfEveryDtypeIsRight) {
  GlooGroup group(GetParam());
  const auto statuses = group.Run(
      [](int /*rank*/, Communicator& communicator) { return CheckCollectives(&communicator); });
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

class GlooPairTest : public GlooTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, GlooPairTest, testing::Values(2, 3),
                         [](const auto& param) { return absl::StrCat("n", param.param); });

TEST_P(GlooPairTest, GroupsWorkBesideTheWhole) {
  GlooGroup group(GetParam());
  const auto statuses = group.Run([](int /*rank*/, Communicator& c) { return CheckGroup(&c); });
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST_P(GlooPairTest, MinAndMaxKeepNanAndOrderZeros) {
  GlooGroup group(GetParam());
  const auto statuses =
      group.Run([](int /*rank*/, Communicator& c) { return CheckNanAndZero(&c); });
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST_P(GlooPairTest, IntegerSumsWrap) {
  GlooGroup group(GetParam());
  const auto statuses = group.Run([](int /*rank*/, Communicator& c) { return CheckWrap(&c); });
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST_P(GlooPairTest, AMismatchIsAnErrorOnEveryRankThatNamesBothSides) {
  GlooGroup group(GetParam());
  const auto statuses = group.Run([](int rank, Communicator& c) {
    std::vector<float> data(2000, 1.0F);
    return c.AllReduce(data.data(), rank == 1 ? 2000 : 1000, Dtype::kF32, ReduceOp::kSum);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "count 1000"));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "count 2000"));
  }
}

TEST_P(GlooPairTest, ARankThatNeverCallsIsNamedWithinTheTimeout) {
  GlooGroup group(GetParam(), /*sync_timeout_ms=*/400);
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([](int rank, Communicator& c) -> absl::Status {
    if (rank == 1) return absl::OkStatus();
    float value = 1;
    return c.AllReduce(&value, 1, Dtype::kF32, ReduceOp::kSum);
  });
  EXPECT_THAT((group.clock().NowNs() - start_ns) / kNsPerMs, Lt(2'000));
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kDeadlineExceeded, "missing: rank 1"));
  EXPECT_THAT(BlamedBy(statuses[0]), ElementsAre("rank 1"));
}

TEST_P(GlooPairTest, ARankThatLeftIsNamedAtOnceAndForGood) {
  GlooGroup group(GetParam());
  const int64_t start_ns = group.clock().NowNs();
  const auto statuses = group.Run([&](int rank, Communicator& c) -> absl::Status {
    if (rank == 1) {
      group.Destroy(1);
      return absl::OkStatus();
    }
    float value = 1;
    const absl::Status first = c.AllReduce(&value, 1, Dtype::kF32, ReduceOp::kSum);
    EXPECT_EQ(c.Barrier().message(), first.message());
    return first;
  });
  EXPECT_THAT((group.clock().NowNs() - start_ns) / kNsPerMs, Lt(5'000));
  EXPECT_THAT(BlamedBy(statuses[0]), ElementsAre("rank 1"));
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kUnavailable, "rank 1"));
}

TEST_P(GlooPairTest, AnAbortEndsAWait) {
  GlooGroup group(GetParam());
  std::thread stopper;
  const auto statuses = group.Run([&](int rank, Communicator& c) -> absl::Status {
    if (rank == 1) {
      stopper = std::thread([&] { group.abort().Request(absl::CancelledError("stopped")); });
      return absl::OkStatus();
    }
    float value = 1;
    return c.AllReduce(&value, 1, Dtype::kF32, ReduceOp::kSum);
  });
  stopper.join();
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kCancelled, "stopped"));
}

TEST_P(GlooPairTest, AverageOfIntegersIsRefusedByEveryRank) {
  GlooGroup group(GetParam());
  const auto statuses = group.Run([](int /*rank*/, Communicator& c) {
    int32_t value = 1;
    return c.AllReduce(&value, 1, Dtype::kI32, ReduceOp::kAvg);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "avg"));
  }
}

TEST(EngineTest, NamesAreThoseOfTheSpec) {
  for (const Engine engine : kEngines) EXPECT_EQ(EngineNamed(NameOf(engine)), engine);
  EXPECT_EQ(EngineNamed("rccl"), std::nullopt);
}

TEST(EngineTest, AnAbsentLibraryNamesItsPackage) {
  EXPECT_THAT(CheckEngine(Engine::kMpi, "/nowhere"),
              StatusIs(absl::StatusCode::kFailedPrecondition, "openmpi-bin"));
  EXPECT_THAT(CheckEngine(Engine::kGloo, "/nowhere"),
              StatusIs(absl::StatusCode::kFailedPrecondition, "libgloo-dev"));
}

TEST(EngineTest, ARankWithoutTheLibraryTellsTheOthers) {
  if (!GlooIsHere()) GTEST_SKIP() << "Gloo is not here";
  const MonotonicClock clock;
  const Abort abort;
  const Limits limits = TestLimits();
  std::vector<std::unique_ptr<Link>> links = ConnectTcpLinks(2, 1, limits, clock, abort);
  OnEachRank(2, [&](int rank) {
    EngineOptions options;
    options.library_dir = rank == 1 ? "/nowhere" : BinDir();
    options.host = "127.0.0.1";
    options.limits = limits;
    const auto made =
        MakeEngineCommunicator(options, std::move(links[static_cast<size_t>(rank)]), clock, abort);
    EXPECT_THAT(made, StatusIs(absl::StatusCode::kFailedPrecondition, "libgloo-dev"));
  });
}

TEST(EngineTest, MpiRefusesAProcessThatMpirunDidNotStart) {
  if (!CheckEngine(Engine::kMpi, BinDir()).ok()) GTEST_SKIP() << "Open MPI is not here";
  const MonotonicClock clock;
  const Abort abort;
  std::vector<std::unique_ptr<Link>> links = ConnectTcpLinks(1, 1, TestLimits(), clock, abort);
  EngineOptions options;
  options.engine = Engine::kMpi;
  options.library_dir = BinDir();
  EXPECT_THAT(MakeEngineCommunicator(options, std::move(links[0]), clock, abort),
              StatusIs(absl::StatusCode::kFailedPrecondition, "mpirun"));
}

}  // namespace
}  // namespace lockstep
