#include "ps_server/service/exchange.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kCount = 16;
constexpr int64_t kEpoch = 4;

PsServerConfig Config(int32_t world_size) {
  PsServerConfig config;
  config.world_size = world_size;
  config.epoch = kEpoch;
  config.sgd = {0.1F, 0.9F, static_cast<float>(world_size)};
  config.limits.connect_timeout_ms = 400;
  config.limits.sync_timeout_ms = 400;
  return config;
}

class ExchangeTest : public testing::Test {
 protected:
  PsLayout Layout(std::vector<int64_t> tensors = {10, 6}) const {
    return {.tensor_counts = std::move(tensors),
            .shards = 1,
            .world_size = world_size_,
            .sgd = Config(world_size_).sgd};
  }
  static PsFrame Header(PsKind kind, int32_t worker, int64_t incarnation = 1) {
    PsFrame frame;
    frame.set_kind(kind);
    frame.set_worker(worker);
    frame.set_incarnation(incarnation);
    frame.set_epoch(kEpoch);
    return frame;
  }
  static PsFrame Hello(int32_t worker, const PsLayout& layout, int64_t incarnation = 1) {
    PsFrame frame = Header(HELLO, worker, incarnation);
    frame.set_layout(FingerprintOf(layout));
    frame.set_description(Describe(layout));
    for (const int64_t count : layout.tensor_counts) frame.add_tensor_counts(count);
    return frame;
  }
  static PsFrame Data(PsKind kind, int32_t worker, int64_t step, const std::vector<float>& values) {
    PsFrame frame = Header(kind, worker);
    frame.set_step(step);
    frame.set_total(kCount);
    frame.set_payload(values.data(), values.size() * 4);
    return frame;
  }
  static PsFrame Pull(int32_t worker, int64_t version) {
    PsFrame frame = Header(PULL, worker);
    frame.set_version(version);
    return frame;
  }

  int64_t Bytes_(const PsFrame& frame) { return static_cast<int64_t>(frame.ByteSizeLong()); }

  void SendBytes(int64_t stream, const std::string& bytes) {
    const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes.data(), bytes.size()))};
    exchange_.Received(stream, slices);
  }
  void Send(int64_t stream, const PsFrame& frame) { SendBytes(stream, frame.SerializeAsString()); }

  // The frames that went out on `stream` since the last call; those of other streams are kept.
  std::vector<Outgoing> Out(int64_t stream) {
    for (auto& [id, out] : exchange_.TakeOutgoing()) out_.emplace_back(id, std::move(out));
    std::vector<Outgoing> mine;
    std::vector<std::pair<int64_t, Outgoing>> others;
    for (auto& [id, out] : out_) {
      if (id == stream) {
        mine.push_back(std::move(out));
      } else {
        others.emplace_back(id, std::move(out));
      }
    }
    out_ = std::move(others);
    return mine;
  }
  // The reason in the one frame of `stream`, which must be a refusal that ends it.
  absl::Status RefusalOn(int64_t stream) {
    const std::vector<Outgoing> out = Out(stream);
    if (out.empty()) return absl::OkStatus();
    EXPECT_TRUE(out.back().last);
    EXPECT_EQ(out.back().header.kind(), REFUSED);
    return {static_cast<StatusCode>(out.back().header.code()), out.back().header.reason()};
  }

  // Stream 10 + w for worker w, welcomed.
  void AdmitAll() {
    ASSERT_THAT(exchange_.Configure(Config(world_size_)), IsOk());
    for (int32_t w = 0; w < world_size_; ++w) {
      exchange_.Opened(10 + w, "");
      Send(10 + w, Hello(w, Layout()));
      const std::vector<Outgoing> out = Out(10 + w);
      ASSERT_EQ(out.size(), 1U);
      EXPECT_EQ(out[0].header.kind(), WELCOME);
    }
  }

  int32_t world_size_ = 2;
  ManualClock clock_;
  std::vector<Traffic> set_ups_;
  std::vector<StepServed> steps_;
  Exchange exchange_{"",
                     {.set_up = [this](const Traffic& traffic) { set_ups_.push_back(traffic); },
                      .step = [this](const StepServed& step) { steps_.push_back(step); }},
                     clock_};
  std::vector<std::pair<int64_t, Outgoing>> out_;
};

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
  theirs.sgd.momentum = 0.5F;
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
                    Refused{"HugeModel",
                            [](PsFrame* f) {
                              PsLayout layout = {.tensor_counts = {int64_t{1} << 35},
                                                 .shards = 1,
                                                 .world_size = 2,
                                                 .sgd = Config(2).sgd};
                              f->set_layout(FingerprintOf(layout));
                              f->clear_tensor_counts();
                              f->add_tensor_counts(layout.tensor_counts[0]);
                            },
                            StatusCode::kResourceExhausted, "limits.staged_bytes_max"}),
    [](const auto& row) { return row.param.name; });

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

TEST_F(ExchangeTest, EveryByteOfAStepIsReportedWithIt) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  auto serve = [&](int64_t version) {
    for (int32_t w = 0; w < 2; ++w) {
      Send(10 + w, Pull(w, version));
      const std::vector<Outgoing> out = Out(10 + w);
      ASSERT_EQ(out.size(), 1U);
      exchange_.Sent(out[0].header, 100, /*complete=*/true, 10 + w);
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
    EXPECT_EQ(static_cast<int64_t>(steps_.size()), step - 1);
    serve(step);
    ASSERT_EQ(static_cast<int64_t>(steps_.size()), step);
    EXPECT_EQ(steps_.back().step, step);
    EXPECT_EQ(steps_.back().version, step);
    EXPECT_EQ(steps_.back().duplicates, 2);
    EXPECT_EQ(steps_.back().traffic.received_bytes, pushed_bytes);
    EXPECT_EQ(steps_.back().traffic.sent_bytes, 200);
  }
  EXPECT_EQ(exchange_.unreported().received_bytes, 0);
  EXPECT_EQ(exchange_.counters().duplicates, 4);
}

TEST_F(ExchangeTest, AStepThatNobodyFetchedIsReportedAtTheEnd) {
  AdmitAll();
  Send(10, Data(INIT, 0, 0, StartValues(1, kCount)));
  for (int32_t w = 0; w < 2; ++w) Send(10 + w, Data(PUSH, w, 1, Gradients(1, w, 1, kCount)));
  EXPECT_TRUE(steps_.empty());
  exchange_.Report();
  ASSERT_EQ(steps_.size(), 1U);
  EXPECT_EQ(steps_[0].step, 1);
  exchange_.Report();
  EXPECT_EQ(steps_.size(), 1U);
}

}  // namespace
}  // namespace lockstep
