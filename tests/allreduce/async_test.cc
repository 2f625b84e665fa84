// Calls in a thread of their own: results in call order, several groups at once in one process,
// errors on each handle, and an end that never hangs.
#include "allreduce/async.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/call_queue.h"
#include "base/status.h"
#include "base/sync.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::AnyOf;

constexpr int64_t kWaitMs = 20'000;
constexpr int64_t kPromptMs = 5'000;

// n ranks in one process, each with a thread of its own for its calls.
class AsyncGroup {
 public:
  AsyncGroup(int n, Transport transport, const Limits& limits = TestLimits(),
             size_t calls_max = 64) {
    std::vector<std::unique_ptr<Link>> links =
        transport == Transport::kTcp
            ? ConnectTcpLinks(n, 1, limits, clock_, abort_)
            : MakeInProcessLinks({.world_size = n}, limits, clock_, abort_);
    for (std::unique_ptr<Link>& link : links) {
      CommunicatorOptions options;
      options.limits = limits;
      ranks_.push_back(std::make_unique<AsyncCommunicator>(
          MakeHostCommunicator(std::move(link), clock_, options), limits, calls_max));
    }
  }
  AsyncCommunicator& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  void Destroy(int rank) { ranks_[static_cast<size_t>(rank)].reset(); }
  int n() const { return static_cast<int>(ranks_.size()); }
  const Clock& clock() const { return clock_; }
  Abort& abort() { return abort_; }

 private:
  MonotonicClock clock_;
  Abort abort_;
  std::vector<std::unique_ptr<AsyncCommunicator>> ranks_;
};

// One all-reduce of every rank under way, from one thread.
struct Pending {
  std::vector<std::vector<int64_t>> data;  // [rank]
  std::vector<CallHandle> handles;         // [rank]
};
Pending StartSum(const std::vector<AsyncCommunicator*>& ranks, int64_t count, int64_t value) {
  Pending pending;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    pending.data.emplace_back(static_cast<size_t>(count), value + static_cast<int64_t>(rank));
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    pending.handles.push_back(
        ranks[rank]->AllReduce(pending.data[rank].data(), count, Dtype::kI64, ReduceOp::kSum));
  }
  return pending;
}
void ExpectSum(const Pending& pending, int64_t value) {
  const auto n = static_cast<int64_t>(pending.handles.size());
  for (size_t rank = 0; rank < pending.handles.size(); ++rank) {
    ASSERT_THAT(pending.handles[rank].Wait(kWaitMs), IsOk());
    EXPECT_TRUE(pending.handles[rank].done());
    const std::vector<int64_t>& data = pending.data[rank];
    EXPECT_EQ(data, std::vector<int64_t>(data.size(), n * value + n * (n - 1) / 2));
  }
}
std::vector<AsyncCommunicator*> RanksOf(AsyncGroup* group) {
  std::vector<AsyncCommunicator*> ranks;
  ranks.reserve(static_cast<size_t>(group->n()));
  for (int rank = 0; rank < group->n(); ++rank) ranks.push_back(&group->at(rank));
  return ranks;
}

class AsyncTest : public testing::TestWithParam<Transport> {};
std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, AsyncTest, testing::Values(Transport::kInProcess, Transport::kTcp),
                         TransportName);

TEST_P(AsyncTest, ManyCallsRunInTheirOrder) {
  AsyncGroup group(3, GetParam());
  std::vector<Pending> calls;
  calls.reserve(20);
  for (int call = 0; call < 20; ++call) {
    calls.push_back(StartSum(RanksOf(&group), 1 + 500 * (call % 3), call));
  }
  for (int call = 19; call >= 0; --call) ExpectSum(calls[static_cast<size_t>(call)], call);
}

TEST_P(AsyncTest, EveryOperationHasAHandle) {
  AsyncGroup group(2, GetParam());
  std::vector<std::vector<int64_t>> data = {{1, 2}, {3, 4}};
  std::vector<CallHandle> handles;
  for (int rank = 0; rank < 2; ++rank) {
    AsyncCommunicator& c = group.at(rank);
    int64_t* values = data[static_cast<size_t>(rank)].data();
    handles.push_back(c.ReduceScatter(values, 2, Dtype::kI64, ReduceOp::kSum));
    handles.push_back(c.AllGather(values, 2, Dtype::kI64));
    handles.push_back(c.Reduce(values, 2, Dtype::kI64, ReduceOp::kMax, 1));
    handles.push_back(c.Broadcast(values, 2, Dtype::kI64, 1));
    handles.push_back(c.Barrier());
    handles.push_back(c.Submit([](Communicator* own) { return own->MeasureLink().status(); }));
  }
  for (const CallHandle& handle : handles) EXPECT_THAT(handle.Wait(kWaitMs), IsOk());
  EXPECT_EQ(data[0], (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(data[1], (std::vector<int64_t>{4, 6}));
}

// Nothing is shared: no singleton, no order between the groups.
TEST_P(AsyncTest, TwoGroupsWorkAtOnceInOneProcess) {
  AsyncGroup first(3, GetParam());
  AsyncGroup second(3, GetParam());
  std::vector<Pending> calls;
  for (int call = 0; call < 10; ++call) {
    calls.push_back(StartSum(RanksOf(&first), 1'000, call));
    calls.push_back(StartSum(RanksOf(&second), 1'000, 100 + call));
  }
  for (size_t call = calls.size(); call-- > 0;) {
    ExpectSum(calls[call], static_cast<int64_t>(call / 2) + (call % 2 == 0 ? 0 : 100));
  }
}

// Rows and columns of a grid of 2 x 3, their calls mixed with those of the whole.
TEST_P(AsyncTest, RowsAndColumnsShareTheirThread) {
  AsyncGroup whole(6, GetParam());
  std::vector<std::unique_ptr<AsyncCommunicator>> rows(6);
  std::vector<std::unique_ptr<AsyncCommunicator>> columns(6);
  OnEachRank(6, [&](int rank) {
    const auto make = [&](const std::vector<int>& ranks, std::unique_ptr<AsyncCommunicator>* own) {
      absl::StatusOr<std::unique_ptr<AsyncCommunicator>> group = whole.at(rank).Group(ranks);
      ASSERT_THAT(group, IsOk());
      if (*group != nullptr) *own = *std::move(group);
    };
    for (const auto& ranks : {std::vector{0, 1, 2}, {3, 4, 5}}) {
      make(ranks, &rows[static_cast<size_t>(rank)]);
    }
    for (const auto& ranks : {std::vector{0, 3}, {1, 4}, {2, 5}}) {
      make(ranks, &columns[static_cast<size_t>(rank)]);
    }
  });
  std::vector<Pending> calls;
  for (int round = 0; round < 3; ++round) {
    for (const size_t row : {size_t{0}, size_t{3}}) {
      calls.push_back(
          StartSum({rows[row].get(), rows[row + 1].get(), rows[row + 2].get()}, 300, 1));
    }
    for (size_t column = 0; column < 3; ++column) {
      calls.push_back(StartSum({columns[column].get(), columns[column + 3].get()}, 300, 1));
    }
    calls.push_back(StartSum(RanksOf(&whole), 300, 1));
  }
  for (const Pending& call : calls) ExpectSum(call, 1);
}

TEST_P(AsyncTest, AllocatedMemoryServesCalls) {
  AsyncGroup group(2, GetParam());
  OnEachRank(2, [&](int rank) {
    const absl::StatusOr<std::span<std::byte>> memory = group.at(rank).Allocate(64);
    ASSERT_THAT(memory, IsOk());
    auto* values = reinterpret_cast<int64_t*>(memory->data());
    values[0] = rank;
    EXPECT_THAT(group.at(rank).AllReduce(values, 1, Dtype::kI64, ReduceOp::kSum).Wait(kWaitMs),
                IsOk());
    EXPECT_EQ(values[0], 1);
  });
}

TEST_P(AsyncTest, AWaitThatExpiresLeavesTheCallGoingOn) {
  AsyncGroup group(2, GetParam());
  int64_t early = 1;
  const CallHandle handle = group.at(0).AllReduce(&early, 1, Dtype::kI64, ReduceOp::kSum);
  EXPECT_THAT(handle.Wait(10), StatusIs(StatusCode::kDeadlineExceeded, "not through after 10 ms"));
  EXPECT_FALSE(handle.done());
  int64_t late = 2;
  EXPECT_THAT(group.at(1).AllReduce(&late, 1, Dtype::kI64, ReduceOp::kSum).Wait(kWaitMs), IsOk());
  EXPECT_THAT(handle.Wait(kWaitMs), IsOk());
  EXPECT_EQ(early, 3);
}

// The first failure is every later call's.
TEST_P(AsyncTest, EachHandleCarriesItsError) {
  AsyncGroup group(3, GetParam(), TestLimits(300));
  std::vector<int64_t> data(6, 1);
  std::vector<CallHandle> handles;
  for (const int rank : {0, 1}) {
    for (int call = 0; call < 3; ++call) {
      int64_t* value = &data[3 * static_cast<size_t>(rank) + static_cast<size_t>(call)];
      handles.push_back(group.at(rank).AllReduce(value, 1, Dtype::kI64, ReduceOp::kSum));
    }
  }
  for (const CallHandle& handle : handles) {
    const absl::Status status = handle.Wait(kWaitMs);
    EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded, "all_reduce #0"));
    EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded, "missing: rank 2."));
  }
}

// What runs ends by its own deadline, what waits never begins; peers see a loss.
TEST_P(AsyncTest, GoingAwayWithCallsOutstandingEndsThemAll) {
  AsyncGroup group(2, GetParam(), TestLimits(300));
  std::vector<int64_t> data(5, 1);
  std::vector<CallHandle> handles;
  handles.reserve(data.size());
  for (int64_t& value : data) {
    handles.push_back(group.at(0).AllReduce(&value, 1, Dtype::kI64, ReduceOp::kSum));
  }
  const int64_t start_ns = group.clock().NowNs();
  group.Destroy(0);
  EXPECT_LT((group.clock().NowNs() - start_ns) / kNsPerMs, kPromptMs);
  for (const CallHandle& handle : handles) {
    ASSERT_TRUE(handle.done());
    EXPECT_THAT(handle.Wait(0), AnyOf(StatusIs(StatusCode::kCancelled,
                                               "rank 0: its communicator "
                                               "went before the call began"),
                                      StatusIs(StatusCode::kDeadlineExceeded, "missing: rank 1.")));
  }
  EXPECT_THAT(handles.back().Wait(0), StatusIs(StatusCode::kCancelled, "went before"));
  int64_t value = 1;
  EXPECT_FALSE(group.at(1).AllReduce(&value, 1, Dtype::kI64, ReduceOp::kSum).Wait(kWaitMs).ok());
}

TEST_P(AsyncTest, AnAbortEndsTheCallThatRuns) {
  AsyncGroup group(2, GetParam());
  int64_t value = 1;
  const CallHandle handle = group.at(0).AllReduce(&value, 1, Dtype::kI64, ReduceOp::kSum);
  const int64_t start_ns = group.clock().NowNs();
  group.abort().Request(absl::CancelledError("stopped by the user"));
  EXPECT_THAT(handle.Wait(kWaitMs), StatusIs(StatusCode::kCancelled, "stopped by the user"));
  group.Destroy(0);
  EXPECT_LT((group.clock().NowNs() - start_ns) / kNsPerMs, kPromptMs);
}

TEST(QueueTest, ACallThatFindsNoRoomFailsAndSaysSo) {
  Limits limits = TestLimits(50);
  limits.answer_grace_ms = 1;
  AsyncGroup group(1, Transport::kInProcess, limits, /*calls_max=*/2);
  Mutex mu;
  bool go_on = false;
  std::vector<CallHandle> handles;
  handles.reserve(5);
  for (int call = 0; call < 5; ++call) {
    handles.push_back(group.at(0).Submit([&](Communicator*) {
      MutexLock lock(&mu);
      mu.AwaitFor([&] { return go_on; }, kWaitMs);
      return absl::OkStatus();
    }));
  }
  // One runs and two wait.
  EXPECT_THAT(handles[3].Wait(0), StatusIs(StatusCode::kResourceExhausted, "2 calls wait already"));
  EXPECT_THAT(handles[4].Wait(0), StatusIs(StatusCode::kResourceExhausted, "within 51 ms"));
  {
    MutexLock lock(&mu);
    go_on = true;
  }
  for (size_t call = 0; call < 3; ++call) EXPECT_THAT(handles[call].Wait(kWaitMs), IsOk());
}

// What an owner's calls used goes in their thread: after the one that runs, before what others wait
// for, and also when there is no room.
TEST(QueueTest, AnOwnersLastCallRunsInTheQueuesThread) {
  CallQueue queue(/*calls_max=*/2);
  const int leaving = 0;
  const int staying = 0;
  Mutex mu;
  bool go_on = false;
  std::vector<std::string> order;
  std::vector<std::thread::id> threads;
  const auto note = [&](const std::string& call) {
    MutexLock lock(&mu);
    mu.AwaitFor([&] { return go_on; }, kWaitMs);
    order.push_back(call);
    threads.push_back(std::this_thread::get_id());
    return absl::OkStatus();
  };
  const auto running = queue.Add(
      &leaving, [&] { return note("running"); }, kWaitMs);
  const auto never = queue.Add(
      &leaving, [&] { return note("never"); }, kWaitMs);
  const auto other = queue.Add(
      &staying, [&] { return note("other"); }, kWaitMs);
  std::thread caller([&] {
    queue.Forget(&leaving, absl::CancelledError("gone"), [&] { note("last").IgnoreError(); });
  });
  EXPECT_THAT(never->Wait(kWaitMs), StatusIs(StatusCode::kCancelled, "gone"));
  {
    MutexLock lock(&mu);
    go_on = true;
  }
  caller.join();
  EXPECT_THAT(running->Wait(kWaitMs), IsOk());
  EXPECT_THAT(other->Wait(kWaitMs), IsOk());
  MutexLock lock(&mu);
  EXPECT_EQ(order, (std::vector<std::string>{"running", "last", "other"}));
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 1U);
}

}  // namespace
}  // namespace lockstep
