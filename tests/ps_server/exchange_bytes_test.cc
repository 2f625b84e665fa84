// Which step each byte is counted with.
#include <gtest/gtest.h>

#include <algorithm>
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

TEST_F(ExchangeTest, EveryByteOfAStepIsReportedWithIt) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  auto serve = [&](int64_t version) {
    for (int32_t w = 0; w < 2; ++w) {
      Send(10 + w, Pull(w, version));
      const std::vector<Outgoing> out = Out(10 + w);
      ASSERT_EQ(out.size(), 1U);
      Transmit(out[0], 100);
    }
  };
  serve(0);
  ASSERT_EQ(set_ups_.size(), 1U);
  EXPECT_EQ(set_ups_[0].sent_messages, 2);
  EXPECT_EQ(set_ups_[0].received_messages, 2 + 1 + 2);  // HELLO, INIT, PULL
  for (int64_t step = 1; step <= 2; ++step) {
    int64_t pushed_bytes = 0;
    for (int32_t w = 0; w < 2; ++w) {
      const PsFrame push = Data(PUSH, w, step, Gradients(1, w, step, kCount));
      Send(10 + w, push);
      Send(10 + w, push);
      pushed_bytes += 2 * Bytes_(push) + Bytes_(Pull(w, step));
    }
    EXPECT_EQ(static_cast<int64_t>(updates_.size()), step - 1);
    serve(step);
    ASSERT_EQ(static_cast<int64_t>(updates_.size()), step);
    EXPECT_EQ(updates_.back().update.step, step);
    EXPECT_EQ(updates_.back().update.version, step);
    EXPECT_EQ(updates_.back().duplicates, 2);
    EXPECT_EQ(updates_.back().traffic.received_bytes, pushed_bytes);
    EXPECT_EQ(updates_.back().traffic.sent_bytes, 200);
  }
  EXPECT_EQ(exchange_.unreported().received_bytes, 0);
  EXPECT_EQ(exchange_.counters().duplicates, 4);
}

// Worker 0 runs ahead of worker 1, as far as a synchronous server lets it, in any order.
class Interleaved : public ExchangeTest, public testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr int64_t kSteps = 20;
  static constexpr int64_t kReplyBytes = 100;

  struct WorkerState {
    int64_t step = 0;  // pulls this version next
    int64_t pushed = 0;
    bool pulling = false;
    std::vector<Outgoing> replies;  // not handed to the transport yet
  };

  // One chunk, one pull or one reply of worker w; false when it must wait or is done.
  bool Advance(int32_t w) {
    WorkerState& worker = workers_[static_cast<size_t>(w)];
    for (Outgoing& out : Out(10 + w)) worker.replies.push_back(std::move(out));
    if (!worker.replies.empty()) {
      EXPECT_EQ(worker.replies[0].header.kind(), PARAMETERS);
      EXPECT_EQ(worker.replies[0].header.version(), worker.step);
      Transmit(worker.replies[0], kReplyBytes + worker.step);
      worker.replies.clear();
      worker.pulling = false;
      ++worker.step;
      worker.pushed = 0;
      return true;
    }
    if (worker.pulling || worker.step > kSteps) return false;
    if (worker.step > 0 && worker.pushed < kCount) {
      const int64_t count = std::min<int64_t>(kCount - worker.pushed, 1 + w * 4 + worker.step % 3);
      PsFrame push =
          Data(PUSH, w, worker.step, std::vector<float>(static_cast<size_t>(count), 1.0F));
      push.set_offset(worker.pushed);
      worker.pushed += count;
      Book(worker.step, push);
      Send(10 + w, push);
      return true;
    }
    worker.pulling = true;
    const PsFrame pull = Pull(w, worker.step);
    Book(worker.step, pull);
    Send(10 + w, pull);
    return true;
  }
  void Book(int64_t step, const PsFrame& frame) {
    expected_[static_cast<size_t>(step)].received_bytes += Bytes_(frame);
    ++expected_[static_cast<size_t>(step)].received_messages;
  }

  std::vector<WorkerState> workers_ = std::vector<WorkerState>(2);
  std::vector<Traffic> expected_ = std::vector<Traffic>(kSteps + 1);  // received, by step
};

TEST_P(Interleaved, EveryStepHasExactlyItsBytes) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  // Seed 0: worker 0 always goes first, so it has pushed the next step before worker 1's reply.
  std::mt19937_64 random(GetParam());
  bool ran_ahead = false;
  for (;;) {
    const int32_t w = GetParam() == 0 ? 0 : static_cast<int32_t>(random() % 2);
    const bool alone = GetParam() != 0 && random() % 3 == 0;
    if (!Advance(w) && !alone && !Advance(1 - w)) break;
    ran_ahead = ran_ahead || (workers_[0].step > workers_[1].step && workers_[0].pushed > 0 &&
                              workers_[1].step > 0);
  }
  EXPECT_TRUE(ran_ahead);
  ASSERT_EQ(set_ups_.size(), 1U);
  EXPECT_EQ(set_ups_[0].received_messages, 2 + 1 + 2);  // HELLO, INIT, PULL
  ASSERT_EQ(updates_.size(), static_cast<size_t>(kSteps));
  for (int64_t step = 1; step <= kSteps; ++step) {
    const UpdateServed& served = updates_[static_cast<size_t>(step - 1)];
    const Traffic& expected = expected_[static_cast<size_t>(step)];
    EXPECT_EQ(served.update.step, step);
    EXPECT_EQ(served.traffic.received_bytes, expected.received_bytes) << "step " << step;
    EXPECT_EQ(served.traffic.received_messages, expected.received_messages) << "step " << step;
    EXPECT_EQ(served.traffic.sent_bytes, 2 * (kReplyBytes + step)) << "step " << step;
    EXPECT_EQ(served.traffic.sent_messages, 2) << "step " << step;
  }
  EXPECT_EQ(exchange_.unreported().received_bytes, 0);
  EXPECT_EQ(exchange_.unreported().sent_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Interleaved, testing::Range<uint64_t>(0, 10),
                         testing::PrintToStringParamName());

TEST_F(ExchangeTest, RefusedAndLateFramesChangeNoStep) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  const auto push = [&](int32_t w, int64_t step) {
    return Data(PUSH, w, step, Gradients(1, w, step, kCount));
  };
  for (int32_t w = 0; w < 2; ++w) Send(10 + w, push(w, 1));
  exchange_.Report();
  const int64_t before_bytes = exchange_.unreported().received_bytes;
  Send(10, push(0, 1));  // a duplicate, after the event
  exchange_.Opened(20, "");
  Send(20, push(1, 2));  // by a stranger
  Send(20, push(1, 2));  // on a stream that is refused already
  EXPECT_THAT(RefusalOn(20), StatusIs(StatusCode::kInvalidArgument, "begins with one HELLO"));
  for (int32_t w = 0; w < 2; ++w) Send(10 + w, push(w, 2));
  exchange_.Report();
  ASSERT_EQ(updates_.size(), 2U);
  for (int64_t step = 1; step <= 2; ++step) {
    EXPECT_EQ(updates_[static_cast<size_t>(step - 1)].traffic.received_bytes,
              Bytes_(push(0, step)) + Bytes_(push(1, step)));
  }
  EXPECT_EQ(exchange_.unreported().received_bytes - before_bytes,
            Bytes_(push(0, 1)) + 2 * Bytes_(push(1, 2)));
}

TEST_F(ExchangeTest, AStepThatNobodyFetchedIsReportedAtTheEnd) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  for (int32_t w = 0; w < 2; ++w) Send(10 + w, Data(PUSH, w, 1, Gradients(1, w, 1, kCount)));
  EXPECT_TRUE(updates_.empty());
  exchange_.Report();
  ASSERT_EQ(updates_.size(), 1U);
  EXPECT_EQ(updates_[0].update.step, 1);
  exchange_.Report();
  EXPECT_EQ(updates_.size(), 1U);
}

}  // namespace
}  // namespace lockstep
