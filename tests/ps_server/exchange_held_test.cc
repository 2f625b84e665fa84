// What a server holds, and lets go: replies of streams that end, frames, groups that can't begin.
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
  EXPECT_EQ(updates_[0].staged_bytes, 2 * kCount * 4);
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
