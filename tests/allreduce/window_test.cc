// The direct two-shot in shared memory: the bits of the schedule DIRECT for every dtype, reduction,
// length and kind of memory, and the same errors as over any link.
#include "allreduce/host/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/generate.h"
#include "base/numeric/fold.h"
#include "base/numeric/support.h"
#include "tests/allreduce/elements.h"
#include "tests/allreduce/group.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using Bytes = std::vector<std::byte>;

constexpr int64_t kExpiryMs = 400;

// n ranks, each with a window, and memory allocated from it.
class Windows {
 public:
  explicit Windows(int n) : n_(n), links_(ConnectShmLinks(n, 1, limits_, clock_, abort_)) {
    for (const auto& link : links_) windows_.push_back(WindowAllReduce::Make(link.get()));
    allocated_.resize(static_cast<size_t>(n));
  }

  // body(rank) -> status.
  std::vector<absl::Status> Run(const std::function<absl::Status(int)>& body) {
    std::vector<absl::Status> statuses(static_cast<size_t>(n_));
    OnEachRank(n_, [&](int rank) { statuses[static_cast<size_t>(rank)] = body(rank); });
    return statuses;
  }
  void Allocate(int64_t bytes) {
    const auto statuses = Run([&](int rank) -> absl::Status {
      absl::StatusOr<std::span<std::byte>> memory = at(rank).Allocate(Call(bytes, Dtype::kU8));
      if (memory.ok()) allocated_[static_cast<size_t>(rank)] = *memory;
      return memory.status();
    });
    for (const absl::Status& status : statuses) ASSERT_THAT(status, IsOk());
  }
  ExecuteCall Call(int64_t count, Dtype dtype, ReduceOp op = ReduceOp::kSum) const {
    ExecuteCall call;
    call.count = count;
    call.dtype = dtype;
    call.op = op;
    call.tile_bytes = 1 << 20;
    call.message_bytes_max = limits_.message_bytes_max;
    call.fingerprint = 42;
    call.deadline_ns = clock_.NowNs() + 20 * kNsPerSecond;
    return call;
  }

  WindowAllReduce& at(int rank) { return *windows_[static_cast<size_t>(rank)]; }
  Link& link(int rank) { return *links_[static_cast<size_t>(rank)]; }
  std::span<std::byte> memory(int rank) const { return allocated_[static_cast<size_t>(rank)]; }
  void Destroy(int rank) {
    windows_[static_cast<size_t>(rank)].reset();
    links_[static_cast<size_t>(rank)].reset();
  }
  int n() const { return n_; }
  const Clock& clock() const { return clock_; }
  Abort& abort() { return abort_; }

 private:
  const int n_;
  Limits limits_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<WindowAllReduce>> windows_;
  std::vector<std::span<std::byte>> allocated_;
};

// Any bits, NaNs and infinities among them.
std::vector<Bytes> AnyInputs(int n, int64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Bytes> inputs(static_cast<size_t>(n), Bytes(static_cast<size_t>(bytes)));
  for (Bytes& input : inputs) {
    for (std::byte& byte : input) byte = static_cast<std::byte>(random());
  }
  return inputs;
}

// ((g0 + g1) + g2) + ..., divided once.
Bytes RankOrder(const std::vector<Bytes>& inputs, Dtype dtype, ReduceOp op) {
  Bytes sum = inputs[0];
  const int64_t count = static_cast<int64_t>(sum.size()) / SizeOf(dtype);
  const ReduceOp fold = op == ReduceOp::kAvg ? ReduceOp::kSum : op;
  for (size_t r = 1; r < inputs.size(); ++r) {
    Fold(dtype, fold, inputs[r].data(), sum.data(), count);
  }
  if (op == ReduceOp::kAvg) {
    Average(dtype, sum.data(), static_cast<int64_t>(inputs.size()), count);
  }
  return sum;
}

enum class Memory { kAllocated, kPrivate, kMixed };

// Reduces in memory of that kind, with unaligned private buffers and an odd place in the window.
void ExpectBits(Windows* windows, Memory kind, const ExecuteCall& like, uint64_t seed) {
  const int64_t bytes = like.count * SizeOf(like.dtype);
  const std::vector<Bytes> inputs = AnyInputs(windows->n(), bytes, seed);
  const Bytes expected = RankOrder(inputs, like.dtype, like.op);
  const std::string what =
      absl::StrCat(NameOf(like.dtype), " ", NameOf(like.op), ", count ", like.count, ", n ",
                   windows->n(), ", memory ", static_cast<int>(kind));
  const auto statuses = windows->Run([&](int rank) {
    const bool allocated = kind == Memory::kAllocated || (kind == Memory::kMixed && rank % 2 == 1);
    GuardedBuffer own(bytes);
    std::byte* const data = allocated ? windows->memory(rank).data() + 64 * rank + 8 : own.data();
    if (bytes > 0) std::memcpy(data, inputs[static_cast<size_t>(rank)].data(), expected.size());
    EXPECT_EQ(windows->at(rank).Owns(data, bytes), allocated) << what;
    ExecuteCall call = like;
    call.data = data;
    const absl::Status status = windows->at(rank).Run(call);
    EXPECT_TRUE(bytes == 0 || std::memcmp(data, expected.data(), expected.size()) == 0)
        << what << ", rank " << rank;
    EXPECT_TRUE(own.Intact()) << what << ", rank " << rank;
    return status;
  });
  for (const absl::Status& status : statuses) ASSERT_THAT(status, IsOk());
}

// In one shot, in place, in blocks.
std::vector<int64_t> Lengths(int n) {
  if (!kFullTier) return {0, 10 * n + 3, 9'001};
  return {0, 1, n - 1, n, 10 * n + 3, 9'001, 33'333};
}
std::vector<int> Worlds() {
  if (!kFullTier) return {2, 3};
  return {2, 3, 4, 5, 7, 8, 13};
}

class WindowBitsTest : public testing::TestWithParam<int> {};

TEST_P(WindowBitsTest, EveryDtypeReductionLengthAndMemory) {
  const int n = GetParam();
  Windows windows(n);
  windows.Allocate(1 << 20);
  uint64_t seed = 0;
  for (const Dtype dtype : kAllDtypes) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
      if (!Supports(dtype, op)) continue;
      for (const int64_t count : Lengths(n)) {
        for (const Memory memory : {Memory::kAllocated, Memory::kPrivate, Memory::kMixed}) {
          ExpectBits(&windows, memory, windows.Call(count, dtype, op), ++seed);
        }
      }
    }
  }
}

// Several blocks through the window, one of them short; and just at the borders between the ways.
TEST_P(WindowBitsTest, LengthsAtEveryBorder) {
  const int n = GetParam();
  Windows windows(n);
  windows.Allocate(4 << 20);
  uint64_t seed = 1000;
  for (const int64_t bytes : {1024, 1028, 8192, 8196, 262'144, 262'148, 524'288, 1'000'004}) {
    for (const Memory memory : {Memory::kAllocated, Memory::kPrivate, Memory::kMixed}) {
      ExpectBits(&windows, memory, windows.Call(bytes / 4, Dtype::kF32), ++seed);
    }
  }
}

// DIRECT is the specification: its schedule, run by the executor over the same link's rings, gives
// the same bits and counts the same traffic.
TEST_P(WindowBitsTest, EqualTheScheduleDirectInBitsAndTraffic) {
  const int n = GetParam();
  Windows windows(n);
  windows.Allocate(1 << 20);
  for (const int64_t count : {n + 1, 5'000, 100'003}) {
    const std::vector<Bytes> inputs = AnyInputs(n, 4 * count, 77);
    std::vector<Bytes> in_window = inputs;
    std::vector<Bytes> by_schedule = inputs;
    const auto statuses = windows.Run([&](int rank) -> absl::Status {
      const auto r = static_cast<size_t>(rank);
      ScheduleSpec spec;
      spec.algorithm = Algorithm::kDirect;
      spec.world_size = n;
      const absl::StatusOr<RankPart> part = MakeRankPart(spec, rank);
      if (!part.ok()) return part.status();
      HostExecutor executor(&windows.link(rank), windows.clock());
      ExecuteCall call = windows.Call(count, Dtype::kF32);
      call.data = by_schedule[r].data();
      const Traffic start = windows.link(rank).traffic();
      absl::Status status = executor.Run(*part, call);
      const Traffic scheduled = windows.link(rank).traffic() - start;
      if (!status.ok()) return status;
      const Traffic middle = windows.link(rank).traffic();
      call.data = in_window[r].data();
      status = windows.at(rank).Run(call);
      const Traffic moved = windows.link(rank).traffic() - middle;
      if (count > 10'000) {  // below, some go in one shot: more bytes, half the messages
        // Slices end at cache lines here and at elements there.
        EXPECT_NEAR(static_cast<double>(moved.sent_bytes),
                    static_cast<double>(scheduled.sent_bytes), 64.0 * n * n);
        EXPECT_EQ(moved.sent_messages, scheduled.sent_messages);
        EXPECT_EQ(moved.received_messages, scheduled.received_messages);
      }
      return status;
    });
    for (const absl::Status& status : statuses) ASSERT_THAT(status, IsOk());
    EXPECT_EQ(in_window, by_schedule);
  }
}

TEST_P(WindowBitsTest, ThousandCallsOfRandomLengthAgree) {
  const int n = GetParam();
  constexpr int kRounds = 1000;
  Windows windows(n);
  windows.Allocate(1 << 20);
  std::vector<uint64_t> sums(static_cast<size_t>(n));
  const auto statuses = windows.Run([&](int rank) -> absl::Status {
    std::mt19937_64 lengths(5);  // alike on all ranks
    auto* const data = reinterpret_cast<int64_t*>(windows.memory(rank).data());
    for (int round = 0; round < kRounds; ++round) {
      const auto count = static_cast<int64_t>(lengths() % (round % 10 == 0 ? 20'000 : 200));
      for (int64_t i = 0; i < count; ++i) data[i] = round + i * (rank + 1);
      ExecuteCall call = windows.Call(count, Dtype::kI64);
      call.data = data;
      const absl::Status status = windows.at(rank).Run(call);
      if (!status.ok()) return status;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t right = int64_t{round} * n + i * n * (n + 1) / 2;
        if (data[i] != right) {
          return absl::DataLossError(
              absl::StrCat("round ", round, " element ", i, ": ", data[i], " instead of ", right));
        }
      }
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
}

std::string RanksName(const testing::TestParamInfo<int>& info) {
  return absl::StrCat("N", info.param);
}
INSTANTIATE_TEST_SUITE_P(All, WindowBitsTest, testing::ValuesIn(Worlds()), RanksName);

TEST(WindowTest, LinksWithoutAWindowHaveNone) {
  Limits limits;
  MonotonicClock clock;
  Abort abort;
  const auto in_process = MakeInProcessLinks({.world_size = 2}, limits, clock, abort);
  EXPECT_EQ(WindowAllReduce::Make(in_process[0].get()), nullptr);
  const auto alone = ConnectShmLinks(1, 1, limits, clock, abort);
  EXPECT_EQ(WindowAllReduce::Make(alone[0].get()), nullptr);
}

TEST(WindowTest, AllocatedMemoryIsAlignedAndDistinct) {
  Windows windows(3);
  windows.Allocate(1000);
  const std::span<std::byte> first = windows.memory(1);
  windows.Allocate(0);
  windows.Allocate(5000);
  EXPECT_EQ(first.size(), 1000U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 64, 0U);
  EXPECT_TRUE(windows.at(1).Owns(first.data(), 1000));
  EXPECT_FALSE(windows.at(1).Owns(first.data(), 1001));
  EXPECT_FALSE(windows.at(2).Owns(first.data(), 1)) << "a peer's";
  EXPECT_EQ(windows.memory(1).size(), 5000U);
}

TEST(WindowTest, TooLittleMemoryIsEverybodysErrorBeforeAnythingIsTaken) {
  Windows windows(2);
  const int64_t tebibytes = int64_t{1} << 50;
  const auto statuses = windows.Run([&](int rank) {
    return windows.at(rank).Allocate(windows.Call(tebibytes, Dtype::kU8)).status();
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted, absl::StrCat(tebibytes)));
  }
}

// CASES R01: both sides of a mismatch are told to all, whatever way either call would go.
TEST(WindowTest, CallsThatDifferAreAnErrorOnEveryRank) {
  for (const int64_t large : {2, 100'000}) {
    Windows windows(3);
    std::vector<std::vector<float>> data(3, std::vector<float>(100'000));
    const auto statuses = windows.Run([&](int rank) {
      ExecuteCall call = windows.Call(rank == 1 ? large : 1, Dtype::kF32);
      call.fingerprint = rank == 1 ? 7 : 6;
      call.data = data[static_cast<size_t>(rank)].data();
      return windows.at(rank).Run(call);
    });
    for (const absl::Status& status : statuses) {
      EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "belongs to another call"));
    }
    EXPECT_THAT(statuses[0], StatusIs(StatusCode::kInvalidArgument, "from rank 1"));
  }
}

TEST(WindowTest, ADeadlineNamesWhoIsMissing) {
  Windows windows(4);
  const auto statuses = windows.Run([&](int rank) {
    if (rank == 1 || rank == 3) return absl::OkStatus();
    float value = 1;
    ExecuteCall call = windows.Call(1, Dtype::kF32);
    call.deadline_ns = windows.clock().NowNs() + kExpiryMs * kNsPerMs;
    call.data = &value;
    return windows.at(rank).Run(call);
  });
  EXPECT_THAT(statuses[0], StatusIs(StatusCode::kDeadlineExceeded, "waited for ranks 1, 3"));
  EXPECT_THAT(statuses[2], StatusIs(StatusCode::kDeadlineExceeded, "waited for ranks 1, 3"));
  EXPECT_THAT(windows.at(0).WaitingFor(), ElementsAre(1, 3));
}

TEST(WindowTest, ARankThatLeavesOrDiesIsLost) {
  for (const bool at_work : {false, true}) {
    Windows windows(3);
    RecvRequest pending;
    std::byte byte{};
    pending.peer = 0;
    pending.payload = {&byte, 1};
    const auto statuses = windows.Run([&](int rank) {
      if (rank == 1) {
        if (at_work) windows.link(1).PostRecv(&pending);  // so that it says no goodbye
        windows.Destroy(1);
        return absl::OkStatus();
      }
      std::vector<float> data(100'000);
      ExecuteCall call = windows.Call(100'000, Dtype::kF32);
      call.data = data.data();
      return windows.at(rank).Run(call);
    });
    EXPECT_THAT(statuses[0], StatusIs(StatusCode::kUnavailable, "rank 0 lost rank 1"));
    EXPECT_THAT(statuses[2], StatusIs(StatusCode::kUnavailable, "rank 2 lost rank 1"));
  }
}

TEST(WindowTest, AnAbortEndsACallBeforeItStarts) {
  Windows windows(2);
  windows.abort().Request(absl::CancelledError("stopped"));
  float value = 1;
  ExecuteCall call = windows.Call(1, Dtype::kF32);
  call.data = &value;
  EXPECT_THAT(windows.at(0).Run(call), StatusIs(StatusCode::kCancelled, "stopped"));
}

}  // namespace
}  // namespace lockstep
