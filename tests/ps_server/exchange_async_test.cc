// Mode ASYNC: one event an update, with exactly its worker's bytes, and when they were under way.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ps_server/service/exchange.h"
#include "tests/ps_server/exchange_fixture.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

class AsyncExchange : public ExchangeTest {
 protected:
  AsyncExchange() {
    world_size_ = 3;
    mode_ = PsMode::kAsync;
  }
};

TEST_F(AsyncExchange, AnUpdateIsReportedWhenItsReplyIsSent) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  clock_.AdvanceMs(1);
  PsFrame half = Data(PUSH, 1, 1, std::vector<float>(kCount / 2));
  Send(11, half);
  clock_.AdvanceMs(2);
  half.set_offset(kCount / 2);
  Send(11, half);
  Send(10, Data(PUSH, 0, 1, std::vector<float>(kCount)));
  Send(11, Pull(1, 1));
  const std::vector<Outgoing> out = Out(11);
  ASSERT_EQ(out.size(), 1U);
  PsFrame chunk = out[0].header;
  EXPECT_EQ(chunk.step(), 1);
  EXPECT_EQ(chunk.version(), 2);
  clock_.AdvanceMs(4);
  exchange_.Sending(chunk, 30, /*complete=*/false, 11);
  clock_.AdvanceMs(1);
  exchange_.Sent(chunk, /*complete=*/false);
  exchange_.Sending(chunk, 20, /*complete=*/true, 11);
  EXPECT_TRUE(updates_.empty());
  clock_.AdvanceMs(1);
  exchange_.Sent(chunk, /*complete=*/true);
  ASSERT_EQ(updates_.size(), 1U);
  const UpdateServed& served = updates_[0];
  EXPECT_EQ(served.update.worker, 1);
  EXPECT_EQ(served.update.step, 1);
  EXPECT_EQ(served.update.version, 1);
  EXPECT_EQ(served.apply_start_ns, 3 * kNsPerMs);
  ASSERT_EQ(served.update.pushes.size(), 1U);
  EXPECT_EQ(served.update.pushes[0].start_ns, 1 * kNsPerMs);
  EXPECT_EQ(served.update.pushes[0].end_ns, 3 * kNsPerMs);
  ASSERT_EQ(served.replies.size(), 1U);
  EXPECT_EQ(served.replies[0].worker, 1);
  EXPECT_EQ(served.replies[0].start_ns, 7 * kNsPerMs);
  EXPECT_EQ(served.replies[0].end_ns, 9 * kNsPerMs);
  EXPECT_EQ(served.traffic.sent_bytes, 50);
  EXPECT_EQ(served.traffic.sent_messages, 2);
  EXPECT_EQ(served.traffic.received_messages, 3);
  EXPECT_TRUE(set_ups_.empty());  // worker 2 has no start values yet
  exchange_.Report();             // worker 0 never asked
  ASSERT_EQ(updates_.size(), 2U);
  EXPECT_EQ(updates_[1].update.worker, 0);
  EXPECT_TRUE(updates_[1].replies.empty());
  EXPECT_EQ(set_ups_.size(), 1U);
}

// Three workers, each at its own pace, in random order.
class AsyncBytes : public AsyncExchange, public testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr int64_t kSteps = 15;
  struct WorkerState {
    int64_t step = 0;
    int64_t pushed = 0;
    bool pulling = false;
  };
  Traffic& Expected(int32_t w, int64_t step) {
    return expected_[static_cast<size_t>(w * (kSteps + 1) + step)];
  }
  void SendAndBook(int32_t w, int64_t step, const PsFrame& frame) {
    Expected(w, step) += {.received_bytes = Bytes_(frame), .received_messages = 1};
    Send(10 + w, frame);
  }

  // The next message of worker w: false when it is done.
  bool Advance(int32_t w) {
    WorkerState& worker = workers_[static_cast<size_t>(w)];
    if (worker.step > kSteps) return false;
    if (worker.pulling) {
      const std::vector<Outgoing> out = Out(10 + w);
      EXPECT_EQ(out.size(), 1U);
      EXPECT_EQ(out[0].header.step(), worker.step);
      const int64_t bytes = 100 + w * 10 + worker.step;
      Expected(w, worker.step) += {.sent_bytes = bytes, .sent_messages = 1};
      worker = {worker.step + 1, 0, false};
      Transmit(out[0], bytes);
      return true;
    }
    if (worker.step > 0 && worker.pushed < kCount) {
      const int64_t count = std::min<int64_t>(kCount - worker.pushed, 3 + w * 4);
      PsFrame push = Data(PUSH, w, worker.step, std::vector<float>(static_cast<size_t>(count)));
      push.set_offset(std::exchange(worker.pushed, worker.pushed + count));
      SendAndBook(w, worker.step, push);
      return true;
    }
    worker.pulling = true;
    SendAndBook(w, worker.step, Pull(w, worker.step));
    return true;
  }

  std::vector<WorkerState> workers_ = std::vector<WorkerState>(3);
  std::vector<Traffic> expected_ = std::vector<Traffic>(3 * (kSteps + 1));  // [worker, step]
};

TEST_P(AsyncBytes, EveryUpdateHasExactlyItsOwn) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  std::mt19937_64 random(GetParam());
  for (int done = 0; done < 200; ++done) {
    if (Advance(static_cast<int32_t>(random() % 3))) done = 0;
  }
  ASSERT_EQ(updates_.size(), static_cast<size_t>(3 * kSteps));
  Traffic sum;
  for (const UpdateServed& served : updates_) {
    const Traffic& expected = Expected(*served.update.worker, served.update.step);
    EXPECT_EQ(served.traffic.received_bytes, expected.received_bytes);
    EXPECT_EQ(served.traffic.received_messages, expected.received_messages);
    EXPECT_EQ(served.traffic.sent_bytes, expected.sent_bytes);
    EXPECT_EQ(served.traffic.sent_messages, 1);
    sum += served.traffic;
  }
  ASSERT_EQ(set_ups_.size(), 1U);
  EXPECT_EQ(set_ups_[0].received_messages, 3 + 1 + 3);  // HELLO, INIT, PULL
  EXPECT_EQ(exchange_.unreported().received_bytes, 0);
  EXPECT_EQ(exchange_.unreported().sent_bytes, 0);
  EXPECT_EQ(exchange_.traffic().received_bytes, sum.received_bytes + set_ups_[0].received_bytes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AsyncBytes, testing::Range<uint64_t>(1, 8),
                         testing::PrintToStringParamName());

TEST_F(AsyncExchange, AnUpdateWhoseReplyNobodyAskedForIsReportedWithTheNext) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  Send(12, Data(PUSH, 2, 1, std::vector<float>(kCount)));
  Send(11, Data(PUSH, 1, 1, std::vector<float>(kCount)));
  EXPECT_TRUE(updates_.empty());
  Send(12, Data(PUSH, 2, 2, std::vector<float>(kCount)));
  ASSERT_EQ(updates_.size(), 1U);
  EXPECT_EQ(updates_[0].update.worker, 2);
  EXPECT_EQ(updates_[0].update.step, 1);
  // A push that comes again after its event changes no event.
  const PsFrame late = Data(PUSH, 2, 1, std::vector<float>(kCount));
  Send(12, late);
  exchange_.Report();
  ASSERT_EQ(updates_.size(), 3U);
  for (const UpdateServed& served : updates_) EXPECT_EQ(served.traffic.received_messages, 1);
}

TEST_F(AsyncExchange, AnOwnPushThatNeverCompletesIsNamedToItsWorkerOnly) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  Send(11, Data(PUSH, 1, 1, std::vector<float>(4)));
  Send(11, Pull(1, 1));
  clock_.AdvanceMs(400);
  exchange_.Tick();
  EXPECT_THAT(RefusalOn(11),
              StatusIs(StatusCode::kDeadlineExceeded,
                       "the push of step 1 of worker 1 (4 of 16 elements are here)"));
  Send(12, Data(PUSH, 2, 1, std::vector<float>(kCount)));
  Send(12, Pull(2, 1));
  EXPECT_EQ(Out(12).size(), 1U);
}

}  // namespace
}  // namespace lockstep
