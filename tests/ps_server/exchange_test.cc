#include "ps_server/service/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/ps_server/exchange_fixture.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

TEST_F(ExchangeTest, AHelloBeforeConfigureWaits) {
  exchange_.Opened(1, "");
  Send(1, Hello(0, Layout()));
  clock_.AdvanceMs(300);
  exchange_.Tick();
  EXPECT_TRUE(Out(1).empty());
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  const std::vector<Outgoing> out = Out(1);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].header.kind(), WELCOME);
  EXPECT_THAT(exchange_.Configure(Config(2)),
              StatusIs(StatusCode::kFailedPrecondition, "configured already"));
}

TEST_F(ExchangeTest, RefusesAConfigThatCannotBe) {
  PsServerConfig config = Config(2);
  config.server = 1;
  EXPECT_THAT(exchange_.Configure(config),
              StatusIs(StatusCode::kInvalidArgument, "server 1 of 1 for 2 workers"));
}

// It was refused as a stranger, and a worker that had only not heard yet failed the whole run.
TEST_F(ExchangeTest, AHelloToADeadGroupHearsWhyItIsDead) {
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  exchange_.Leave(absl::AbortedError("server 3 is lost"));
  exchange_.Opened(1, "");
  Send(1, Hello(0, Layout()));
  EXPECT_THAT(RefusalOn(1), StatusIs(StatusCode::kAborted, "server 3 is lost"));
  exchange_.Opened(2, "");
  PsFrame hello = Hello(0, Layout());
  hello.set_epoch(kEpoch - 1);
  Send(2, hello);
  EXPECT_THAT(RefusalOn(2), StatusIs(StatusCode::kFailedPrecondition, "is in epoch 3"));
}

TEST_F(ExchangeTest, AHelloDoesNotWaitForever) {
  exchange_.Opened(1, "");
  Send(1, Hello(0, Layout()));
  clock_.AdvanceMs(Limits().connect_timeout_ms);
  exchange_.Tick();
  EXPECT_THAT(RefusalOn(1), StatusIs(StatusCode::kDeadlineExceeded, "this server was told no run"));
}

TEST_F(ExchangeTest, ASilentStreamIsClosed) {
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  exchange_.Opened(1, "");
  clock_.AdvanceMs(399);
  exchange_.Tick();
  EXPECT_TRUE(Out(1).empty());
  clock_.AdvanceMs(1);
  exchange_.Tick();
  EXPECT_THAT(RefusalOn(1), StatusIs(StatusCode::kDeadlineExceeded, "no HELLO within"));
}

TEST_F(ExchangeTest, LearningRulesThatDifferAreNamedOnBothSides) {
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  exchange_.Opened(1, "");
  PsLayout theirs = Layout();
  theirs.rules.optimizer.momentum = 0.5F;
  Send(1, Hello(1, theirs));
  const absl::Status refusal = RefusalOn(1);
  EXPECT_THAT(refusal, StatusIs(StatusCode::kInvalidArgument, "worker 1 and server 0 disagree"));
  EXPECT_THAT(refusal, StatusIs(StatusCode::kInvalidArgument, "momentum 0.5,"));
  EXPECT_THAT(refusal, StatusIs(StatusCode::kInvalidArgument, "momentum 0.899999976,"));
  EXPECT_EQ(exchange_.counters().refused_streams, 1);
}

TEST_F(ExchangeTest, ModelsThatDifferAreNamedOnBothSides) {
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  exchange_.Opened(1, "");
  Send(1, Hello(0, Layout()));
  exchange_.Opened(2, "");
  Send(2, Hello(1, Layout({6, 10})));
  EXPECT_THAT(
      RefusalOn(2),
      StatusIs(
          StatusCode::kInvalidArgument,
          "worker 1 and worker 0 disagree about the model: tensor 0 has 6 elements against 10"));
}

TEST_F(ExchangeTest, ModesAndOrdersThatDifferAreNamedOnBothSides) {
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  PsLayout theirs = Layout();
  theirs.rules.mode = PsMode::kAsync;
  exchange_.Opened(1, "");
  Send(1, Hello(1, theirs));
  EXPECT_THAT(RefusalOn(1), StatusIs(StatusCode::kInvalidArgument, "worker has async, f32, sgd"));
  theirs = Layout();
  theirs.rules.order = PsOrder::kExact;
  exchange_.Opened(2, "");
  Send(2, Hello(1, theirs));
  const absl::Status refusal = RefusalOn(2);
  EXPECT_THAT(refusal, StatusIs(StatusCode::kInvalidArgument, "worker has sync, sums in exact"));
  EXPECT_THAT(refusal, StatusIs(StatusCode::kInvalidArgument, "server has sync, sums in rank"));
}

TEST_F(ExchangeTest, AModelWithAnEmptyTensorIsServed) {
  ASSERT_THAT(exchange_.Configure(Config(1)), IsOk());
  world_size_ = 1;
  exchange_.Opened(10, "");
  Send(10, Hello(0, Layout({0, 10, 0, 6, 0})));
  EXPECT_EQ(Out(10).size(), 1U);
  const auto reference = ReferenceRun(1, 1, 1, kCount, Config(1).rules.optimizer);
  Send(10, Data(INIT, 0, 0, reference[0]));
  Send(10, Data(PUSH, 0, 1, Gradients(1, 0, 1, kCount)));
  Send(10, Pull(0, 1));
  const std::vector<Outgoing> out = Out(10);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_TRUE(SameBits(Values(out[0]), reference[1]));
}

struct Refused {
  const char* name;
  void (*change)(PsFrame* hello);
  StatusCode code;
  const char* part;
};
void PrintTo(const Refused& row, std::ostream* out) { *out << row.name; }
class RefusedHello : public ExchangeTest, public testing::WithParamInterface<Refused> {};

TEST_P(RefusedHello, IsAnsweredWithItsReason) {
  ASSERT_THAT(exchange_.Configure(Config(2)), IsOk());
  exchange_.Opened(1, "");
  PsFrame hello = Hello(1, Layout());
  GetParam().change(&hello);
  Send(1, hello);
  EXPECT_THAT(RefusalOn(1), StatusIs(GetParam().code, GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, RefusedHello,
    testing::Values(Refused{"Epoch", [](PsFrame* f) { f->set_epoch(3); },
                            StatusCode::kFailedPrecondition,
                            "worker 1 is in epoch 3, server 0 in epoch 4"},
                    Refused{"Worker", [](PsFrame* f) { f->set_worker(2); },
                            StatusCode::kInvalidArgument, "worker 2 is not one of the 2 workers"},
                    Refused{"NegativeWorker", [](PsFrame* f) { f->set_worker(-7); },
                            StatusCode::kInvalidArgument, "worker -7"},
                    Refused{"NotHello", [](PsFrame* f) { f->set_kind(PUSH); },
                            StatusCode::kInvalidArgument, "begins with one HELLO"},
                    // Their sum overflows: no number of a stranger is added before it is looked at.
                    Refused{"OverflowingCounts",
                            [](PsFrame* f) {
                              f->clear_tensor_counts();
                              for (int i = 0; i < 4; ++i) f->add_tensor_counts(INT64_MAX / 2);
                            },
                            StatusCode::kInvalidArgument, "worker 1: tensor 0 of the layout has"},
                    Refused{"NegativeCount", [](PsFrame* f) { f->add_tensor_counts(-1); },
                            StatusCode::kInvalidArgument, "tensor 2 of the layout has -1"},
                    Refused{"NoElements",
                            [](PsFrame* f) {
                              f->clear_tensor_counts();
                              f->add_tensor_counts(0);
                            },
                            StatusCode::kInvalidArgument, "no elements in 1 tensors"},
                    Refused{"HugeModel",
                            [](PsFrame* f) {
                              PsLayout layout = {.rules = Config(2).rules,
                                                 .tensor_counts = {int64_t{1} << 35},
                                                 .shards = 1,
                                                 .world_size = 2};
                              f->set_layout(FingerprintOf(layout));
                              f->clear_tensor_counts();
                              f->add_tensor_counts(layout.tensor_counts[0]);
                            },
                            StatusCode::kResourceExhausted, "limits.staged_bytes_max"}),
    [](const auto& row) { return row.param.name; });

// The bound is a server's, not a shard's: it has places for two.
TEST_F(ExchangeTest, StagedBytesAreCountedOverAllShards) {
  PsLayout layout = Layout({2'048, 2'048});
  layout.shards = 2;
  for (const int64_t missing : {1, 0}) {
    PsServerConfig config = Config(world_size_);
    config.servers = 2;
    config.limits.staged_bytes_max = 2 * world_size_ * 2'048 * 4 - missing;
    config.places[0].epoch = kEpoch;
    config.places[1].epoch = kEpoch;
    Exchange exchange("", {}, clock_);
    ASSERT_THAT(exchange.Configure(config), IsOk());
    exchange.Opened(1, "");
    const std::string hello = Hello(0, layout).SerializeAsString();
    const std::vector<Bytes> slices = {std::as_bytes(std::span(hello.data(), hello.size()))};
    exchange.Received(1, slices);
    const auto out = exchange.TakeOutgoing();
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0].second.header.kind(), missing == 0 ? WELCOME : REFUSED);
    if (missing == 0) continue;
    EXPECT_THAT(out[0].second.header.reason(),
                testing::HasSubstr("one push of each of 2 workers to its 2 shards (4096 elements"));
  }
}

TEST_F(ExchangeTest, TheTokenMustMatch) {
  Exchange guarded("secret", {}, clock_);
  guarded.Opened(1, "guess");
  guarded.Opened(2, "secret");
  const auto out = guarded.TakeOutgoing();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].first, 1);
  EXPECT_EQ(out[0].second.header.code(), static_cast<int>(StatusCode::kPermissionDenied));
}

TEST_F(ExchangeTest, StreamsHaveABound) {
  for (int64_t stream = 1; stream <= static_cast<int64_t>(kStreamsMax); ++stream) {
    exchange_.Opened(stream, "");
  }
  exchange_.Opened(5'000, "");
  EXPECT_THAT(RefusalOn(5'000), StatusIs(StatusCode::kResourceExhausted, "1024 streams"));
}

TEST_F(ExchangeTest, MalformedAndOversizedFramesAreCountedAndRefused) {
  PsServerConfig config = Config(2);
  config.limits.message_bytes_max = 1'024;
  ASSERT_THAT(exchange_.Configure(config), IsOk());
  exchange_.Opened(1, "");
  SendBytes(1, "\xff\xff\xff");
  EXPECT_THAT(RefusalOn(1), StatusIs(StatusCode::kInvalidArgument, "malformed frame of 3 bytes"));
  exchange_.Opened(2, "");
  Send(2, Data(PUSH, 0, 1, std::vector<float>(1'000)));
  EXPECT_THAT(RefusalOn(2),
              StatusIs(StatusCode::kResourceExhausted, "limits.message_bytes_max 1024"));
  EXPECT_EQ(exchange_.counters().malformed_frames, 2);
  exchange_.Opened(3, "");
  Send(3, Hello(0, Layout()));
  EXPECT_EQ(Out(3).size(), 1U);
}

TEST_F(ExchangeTest, ANewerStreamOfAWorkerReplacesTheOlder) {
  AdmitAll();
  exchange_.Opened(20, "");
  Send(20, Hello(1, Layout(), 2));
  EXPECT_THAT(RefusalOn(11),
              StatusIs(StatusCode::kFailedPrecondition, "newer stream, incarnation 2"));
  EXPECT_EQ(Out(20).size(), 1U);
  exchange_.Opened(21, "");
  Send(21, Hello(1, Layout(), 1));
  EXPECT_THAT(RefusalOn(21),
              StatusIs(StatusCode::kFailedPrecondition, "incarnation 1 is older than 2"));
  // The closed stream may still have frames on their way.
  Send(11, Data(PUSH, 1, 1, std::vector<float>(kCount)));
  EXPECT_TRUE(Out(11).empty());
}

TEST_F(ExchangeTest, AFrameOfAnotherWorkerIsRefused) {
  AdmitAll();
  Send(11, Data(PUSH, 0, 1, std::vector<float>(kCount)));
  EXPECT_THAT(RefusalOn(11), StatusIs(StatusCode::kInvalidArgument, "frame of worker 0"));
  Send(10, Header(WELCOME, 0));
  EXPECT_THAT(RefusalOn(10), StatusIs(StatusCode::kInvalidArgument, "no frame of kind 2"));
}

TEST_F(ExchangeTest, AWorkerMayOweOneReplyOnly) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  Send(10, Pull(0, 0));
  EXPECT_EQ(Out(10).size(), 1U);  // not sent yet
  Send(10, Pull(0, 0));
  EXPECT_THAT(RefusalOn(10), StatusIs(StatusCode::kResourceExhausted, "pulls again before"));
}

// The last chunk of a push may ask for the parameters, too: once, though it comes twice.
TEST_F(ExchangeTest, APushMayBeItsPull) {
  AdmitAll();
  for (const int32_t w : {0, 1}) {
    if (w == 0) Send(10, Data(INIT, 0, 0, std::vector<float>(kCount, 1.0F)));
    PsFrame push = Data(PUSH, w, 1, std::vector<float>(kCount, 1.0F));
    push.set_pulls(true);
    const std::string payload = std::exchange(*push.mutable_payload(), "");
    const std::string bytes = EncodeHeader(push, static_cast<int64_t>(payload.size())) + payload;
    SendBytes(10 + w, bytes);
    SendBytes(10 + w, bytes);
  }
  for (const int32_t w : {0, 1}) {
    const std::vector<Outgoing> out = Out(10 + w);
    ASSERT_EQ(out.size(), 1U) << "worker " << w;
    EXPECT_EQ(out[0].header.reason(), "");
    EXPECT_EQ(out[0].header.kind(), PARAMETERS);
    EXPECT_EQ(out[0].header.step(), 1);
    EXPECT_EQ(out[0].header.version(), 1);
  }
  EXPECT_EQ(exchange_.counters().duplicates, 2);
}

TEST_F(ExchangeTest, APushOfAnotherLengthNamesBoth) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  PsFrame push = Data(PUSH, 1, 1, std::vector<float>(kCount + 1));
  push.set_total(kCount + 1);
  Send(11, push);
  EXPECT_THAT(RefusalOn(11),
              StatusIs(StatusCode::kInvalidArgument,
                       "a chunk of 68 bytes at element 0 of 17 does not fit a shard of 16"));
}

TEST_F(ExchangeTest, APingsPayloadGoesBackAndItsBytesAreSetUps) {
  AdmitAll();
  PsFrame ping = Header(PING, 0);
  for (const std::string& payload : {std::string(), std::string("\0any\xff", 5)}) {
    ping.set_payload(payload);
    Send(10, ping);
    const std::vector<Outgoing> out = Out(10);
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0].header.kind(), PONG);
    EXPECT_EQ(Text(out[0]), payload);
    Transmit(out[0], 50);
  }
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  for (int32_t w = 0; w < 2; ++w) {
    Send(10 + w, Pull(w, 0));
    Transmit(Out(10 + w)[0], 7);
  }
  ASSERT_EQ(set_ups_.size(), 1U);
  EXPECT_EQ(set_ups_[0].sent_bytes, 2 * 50 + 2 * 7);
  EXPECT_EQ(set_ups_[0].received_messages, 2 + 2 + 1 + 2);  // HELLO, PING, INIT, PULL
}

TEST_F(ExchangeTest, PingsHaveTheirBounds) {
  AdmitAll();
  Send(10, Header(PING, 0));
  Send(10, Header(PING, 0));
  const std::vector<Outgoing> out = Out(10);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].header.kind(), PONG);
  EXPECT_EQ(out[1].header.kind(), REFUSED);
  EXPECT_EQ(out[1].header.reason(), "worker 0 pings again before its last answer was sent");

  exchange_.Opened(20, "");
  Send(20, Hello(0, Layout()));
  EXPECT_EQ(Out(20).size(), 1U);
  Send(20, Data(INIT, 0, 0, StartValues(1, kCount)));
  Send(20, Data(PUSH, 0, 1, std::vector<float>(kCount)));
  Send(20, Header(PING, 0));
  EXPECT_THAT(RefusalOn(20),
              StatusIs(StatusCode::kFailedPrecondition, "worker 0 pings after its first push"));
}

TEST_F(ExchangeTest, ALateWorkerIsNamedToThoseWhoWait) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  Send(10, Data(PUSH, 0, 1, std::vector<float>(kCount)));
  Send(10, Pull(0, 1));
  clock_.AdvanceMs(400);
  exchange_.Tick();
  EXPECT_THAT(RefusalOn(10),
              StatusIs(StatusCode::kDeadlineExceeded, "step 1 of worker 1 (0 of 16"));
  Send(11, Data(PUSH, 1, 1, std::vector<float>(kCount)));
  EXPECT_THAT(RefusalOn(11),
              StatusIs(StatusCode::kDeadlineExceeded, "step 1 of worker 1 (0 of 16"));
}

}  // namespace
}  // namespace lockstep
