// exchange_fixture.h: an exchange with scripted streams, a clock that the test moves, and its
// events.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ps_server/service/exchange.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"

namespace lockstep {

using absl::StatusCode;

inline constexpr int64_t kCount = 16;
inline constexpr int64_t kEpoch = 4;

inline PsServerConfig Config(int32_t world_size, PsMode mode = PsMode::kSync) {
  PsServerConfig config;
  config.world_size = world_size;
  config.epoch = kEpoch;
  config.rules.mode = mode;
  config.rules.optimizer = {0.1F, 0.9F,
                            mode == PsMode::kAsync ? 1.0F : static_cast<float>(world_size)};
  config.limits.connect_timeout_ms = 400;
  config.limits.sync_timeout_ms = 400;
  return config;
}

class ExchangeTest : public testing::Test {
 protected:
  PsLayout Layout(std::vector<int64_t> tensors = {10, 6}) const {
    return {.rules = Config(world_size_, mode_).rules,
            .tensor_counts = std::move(tensors),
            .shards = 1,
            .world_size = world_size_};
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
    for (const int64_t row : layout.row_elements) frame.add_row_elements(row);
    return frame;
  }
  static PsFrame Data(PsKind kind, int32_t worker, int64_t step, const std::vector<float>& values) {
    PsFrame frame = Header(kind, worker);
    frame.set_step(step);
    frame.set_total(kCount);
    frame.set_payload(values.data(), values.size() * 4);
    return frame;
  }
  static PsFrame Pull(int32_t worker, int64_t step) {
    PsFrame frame = Header(PULL, worker);
    frame.set_step(step);
    return frame;
  }
  // A frame of `bytes` goes out on its worker's stream, as the last one of its kind.
  void Transmit(const Outgoing& out, int64_t bytes) {
    exchange_.Sending(out.header, bytes, /*complete=*/true, 10 + out.header.worker());
    exchange_.Sent(out.header, /*complete=*/true);
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
  // The parameters in a reply.
  static std::vector<float> Values(const Outgoing& out) {
    std::vector<float> values;
    for (const Bytes part : out.payload.parts) {
      const auto* begin = reinterpret_cast<const float*>(part.data());
      values.insert(values.end(), begin, begin + part.size() / sizeof(float));
    }
    return values;
  }
  static std::string Text(const Outgoing& out) {
    std::string text;
    for (const Bytes part : out.payload.parts) {
      text.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    return text;
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
    ASSERT_THAT(exchange_.Configure(Config(world_size_, mode_)), IsOk());
    for (int32_t w = 0; w < world_size_; ++w) {
      exchange_.Opened(10 + w, "");
      Send(10 + w, Hello(w, Layout()));
      const std::vector<Outgoing> out = Out(10 + w);
      ASSERT_EQ(out.size(), 1U);
      EXPECT_EQ(out[0].header.kind(), WELCOME);
    }
  }

  int32_t world_size_ = 2;
  PsMode mode_ = PsMode::kSync;
  ManualClock clock_;
  std::vector<Traffic> set_ups_;
  std::vector<UpdateServed> updates_;
  Exchange exchange_{"",
                     {.set_up = [this](const Traffic& traffic) { set_ups_.push_back(traffic); },
                      .update = [this](const UpdateServed& served) { updates_.push_back(served); }},
                     clock_};
  std::vector<std::pair<int64_t, Outgoing>> out_;
};

}  // namespace lockstep
