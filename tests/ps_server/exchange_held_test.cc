// What a server holds, and lets go: replies of streams that end, frames, groups that can't begin,
// what is summed before its push is whole; and what that took.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ps_server/service/exchange.h"
#include "tests/ps_server/exchange_fixture.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

// A millisecond passes between two looks at it.
class TickingClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_ += kNsPerMs; }

 private:
  mutable int64_t now_ns_ = 0;
};

int64_t HeldOf(int64_t elements) {
  const std::vector<float> values(static_cast<size_t>(elements));
  const std::vector<Bytes> pieces = {std::as_bytes(std::span(values))};
  Staging staging;
  staging.Reset(elements, Dtype::kF32);
  EXPECT_THAT(staging.Add(0, elements, pieces), IsOk());
  return staging.held_bytes();
}

// It was counted with every later update.
TEST_F(ExchangeTest, AReplyGoesWithItsStream) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  Send(11, Pull(1, 0));
  EXPECT_EQ(Out(11).size(), 1U);  // never handed to the transport
  exchange_.Closed(11);
  exchange_.Opened(11, "");
  Send(11, Hello(1, Layout()));
  EXPECT_EQ(Out(11).size(), 1U);
  for (int32_t w = 0; w < 2; ++w) Send(10 + w, Data(PUSH, w, 1, std::vector<float>(kCount)));
  exchange_.Report();
  ASSERT_EQ(updates_.size(), 1U);
  EXPECT_EQ(updates_[0].staged_bytes, 2 * HeldOf(kCount));
}

// Of all blocks but the last one the time was not counted, and the bytes although they were gone.
TEST_F(ExchangeTest, WhatIsSummedEarlyTakesTimeAndIsNotHeld) {
  constexpr int64_t kBlocks = 3;
  TickingClock clock;
  std::vector<UpdateServed> updates;
  PsServerEvents events;
  events.update = [&](const UpdateServed& served) { updates.push_back(served); };
  Exchange exchange("", events, clock);
  const auto send = [&](int32_t worker, PsFrame frame, int64_t offset) {
    frame.set_offset(offset);
    frame.set_total(kBlocks * kSumElements);
    const std::string bytes = frame.SerializeAsString();
    const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes.data(), bytes.size()))};
    exchange.Received(10 + worker, slices);
  };
  ASSERT_THAT(exchange.Configure(Config(2)), IsOk());
  for (int32_t w = 0; w < 2; ++w) {
    exchange.Opened(10 + w, "");
    send(w, Hello(w, Layout({kBlocks * kSumElements})), 0);
  }
  send(0, Data(INIT, 0, 0, std::vector<float>(kBlocks * kSumElements)), 0);
  for (int64_t step = 1; step <= 2; ++step) {
    for (int64_t k = 0; k < kBlocks; ++k) {
      for (int32_t w = 0; w < 2; ++w) {
        send(w, Data(PUSH, w, step, std::vector<float>(kSumElements)), k * kSumElements);
      }
    }
  }
  exchange.Report();
  ASSERT_EQ(updates.size(), 2U);
  for (const UpdateServed& served : updates) {
    EXPECT_EQ(served.early_ns, (kBlocks - 1) * kNsPerMs);
    EXPECT_EQ(served.apply_ns, kNsPerMs);
    EXPECT_EQ(served.staged_bytes, 2 * HeldOf(kSumElements));
  }
}

// A worker's HELLO was given to a copy that is not there.
TEST_F(ExchangeTest, WhoComesToAGroupThatCannotBeginHearsWhy) {
  AdmitAll();
  PsServerConfig next = Config(world_size_);
  next.epoch = kEpoch + 1;
  next.restore = true;
  next.restored[0] = {ShardState()};
  const absl::Status failed = exchange_.Configure(next);
  EXPECT_FALSE(failed.ok());
  exchange_.Tick();
  exchange_.Opened(20, "");
  PsFrame hello = Hello(0, Layout());
  hello.set_epoch(kEpoch + 1);
  Send(20, hello);
  EXPECT_EQ(RefusalOn(20), failed);
}

// A HELLO that was read while the server stopped opened a stream on a queue that was shut down.
TEST_F(ExchangeTest, AServerThatStopsOpensNoStream) {
  for (const bool stops : {false, true}) {
    PsServerConfig config = Config(2);
    config.servers = 2;
    config.epoch = kEpoch + (stops ? 1 : 0);
    config.places[0] = {.epoch = config.epoch, .successor = 1};
    config.successors[1] = {"127.0.0.1", 1};
    Exchange exchange("", {}, clock_);
    ASSERT_THAT(exchange.Configure(config), IsOk());
    exchange.Opened(10, "");
    if (stops) exchange.Stop();
    PsLayout layout = Layout({4'096});
    layout.shards = 2;
    PsFrame hello = Hello(0, layout);
    hello.set_epoch(config.epoch);
    const std::string bytes = hello.SerializeAsString();
    const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes.data(), bytes.size()))};
    exchange.Received(10, slices);
    EXPECT_EQ(exchange.TakeDials().size(), stops ? 0U : 1U);
  }
}

// As long as a large payload is kept, so is what came with it: that must not be a peer's to choose.
TEST_F(ExchangeTest, AFrameWithALongHeaderIsNotKept) {
  constexpr int64_t kElements = 2'048;
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  exchange_.Opened(10, "");
  Send(10, Hello(0, Layout({kElements})));
  PsFrame init = Data(INIT, 0, 0, StartValues(1, kElements));
  init.set_total(kElements);
  Send(10, init);
  EXPECT_EQ(Out(10).size(), 1U);
  for (const int64_t header_bytes : {10, 2'000}) {
    PsFrame push = Data(PUSH, 0, 1, std::vector<float>(kElements / 2));
    push.set_offset(header_bytes == 10 ? 0 : kElements / 2);
    push.set_total(kElements);
    push.set_reason(std::string(static_cast<size_t>(header_bytes), 'x'));
    const auto bytes = std::make_shared<std::string>(push.SerializeAsString());
    const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes->data(), bytes->size()))};
    exchange_.Received(10, slices, bytes);
    EXPECT_EQ(bytes.use_count(), header_bytes == 10 ? 2 : 1) << header_bytes;
  }
  EXPECT_TRUE(Out(10).empty());
}

}  // namespace
}  // namespace lockstep
