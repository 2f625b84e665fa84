// The simulated network, processes and clocks by themselves.
#include "experiments/simulate/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "experiments/simulate/world.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kMs = 1e6;

class NetworkTest : public testing::Test {
 protected:
  void Build(const SimNetworkOptions& options) {
    network_ = std::make_unique<SimNetwork>(options, 1, &queue_, [this](SimNetwork::Arrival a) {
      times_.push_back(queue_.now_ns());
      if (a.what == SimNetwork::What::kMessage) {
        came_.push_back(a.bytes);
        network_->Took(a.stream, a.process);
      }
      if (a.what == SimNetwork::What::kClosed) closed_.push_back(a.process);
    });
    for (int64_t process = 1; process <= 3; ++process) {
      network_->Place(process, static_cast<int32_t>(process));
    }
  }
  void Run() {
    while (!queue_.empty()) queue_.Next()();
  }

  SimQueue queue_;
  std::unique_ptr<SimNetwork> network_;
  std::vector<std::string> came_;
  std::vector<double> times_;
  std::vector<int64_t> closed_;
};

TEST_F(NetworkTest, AMessageTakesLatencyAndItsPort) {
  Build({.cost = {.latency_ns = 100, .overhead_ns = 10, .beta_ns_per_byte = 2}});
  const int64_t stream = network_->Open(1, 2, /*data=*/true);
  Run();
  network_->Send(stream, 1, "12345");
  network_->Send(stream, 1, "67890");
  Run();
  // Opening costs latency + overhead; a message of 5 bytes keeps each port busy for 20.
  EXPECT_THAT(came_, ElementsAre("12345", "67890"));
  EXPECT_THAT(times_, ElementsAre(110, 230, 250));
}

TEST_F(NetworkTest, SendersShareTheReceiversPort) {
  Build({.cost = {.latency_ns = 0, .overhead_ns = 0, .beta_ns_per_byte = 10}});
  const int64_t a = network_->Open(1, 3, true);
  const int64_t b = network_->Open(2, 3, true);
  network_->Send(a, 1, std::string(100, 'a'));
  network_->Send(b, 2, std::string(100, 'b'));
  Run();
  EXPECT_EQ(times_.back(), 2'000);
}

TEST_F(NetworkTest, OrderIsKeptWithinAStreamWhateverTheLatencies) {
  Build({.cost = {.latency_ns = 100}, .jitter_ns = 10'000});
  const int64_t stream = network_->Open(1, 2, true);
  for (int i = 0; i < 8; ++i) network_->Send(stream, 1, std::to_string(i));
  Run();
  EXPECT_THAT(came_, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7"));
}

TEST_F(NetworkTest, WhatWaitsAtACutGoesOnWhenItHeals) {
  Build({.stream_timeout_ns = 100 * kMs});
  const int64_t stream = network_->Open(1, 2, true);
  network_->Cut(1, 2, /*data_only=*/false, 50 * kMs);
  network_->Send(stream, 1, "late");
  Run();
  EXPECT_THAT(came_, ElementsAre("late"));
  EXPECT_THAT(closed_, IsEmpty());
}

TEST_F(NetworkTest, AStreamThatStandsStillBreaksAtBothEnds) {
  Build({.stream_timeout_ns = 20 * kMs});
  const int64_t stream = network_->Open(1, 2, true);
  Run();
  network_->Cut(1, 2, /*data_only=*/false, 50 * kMs);
  network_->Send(stream, 1, "lost");
  Run();
  EXPECT_THAT(came_, IsEmpty());
  EXPECT_THAT(closed_, testing::UnorderedElementsAre(1, 2));
}

TEST_F(NetworkTest, AGrayFailureLetsSignsOfLifeThrough) {
  Build({.stream_timeout_ns = 20 * kMs});
  const int64_t data = network_->Open(1, 2, true);
  const int64_t signs = network_->Open(1, 2, false);
  Run();
  network_->Cut(1, 2, /*data_only=*/true, 50 * kMs);
  network_->Send(data, 1, "data");
  network_->Send(signs, 1, "sign");
  Run();
  EXPECT_THAT(came_, ElementsAre("sign"));
}

TEST_F(NetworkTest, ADeadProcessClosesItsStreamsAndALostHostIsSilent) {
  Build({.cost = {.latency_ns = 1}, .stream_timeout_ns = 20 * kMs});
  network_->Open(1, 2, true);
  network_->Open(1, 3, true);
  Run();
  network_->Die(2, /*silent=*/false);
  Run();
  EXPECT_LT(times_.back(), kMs);
  network_->Die(3, /*silent=*/true);
  Run();
  EXPECT_GE(times_.back(), 20 * kMs);
  EXPECT_THAT(closed_, ElementsAre(1, 1));
}

TEST_F(NetworkTest, AReceiverThatTakesNothingHoldsItsSenderBack) {
  Build({.window = 2});
  network_ = std::make_unique<SimNetwork>(SimNetworkOptions{.window = 2}, 1, &queue_,
                                          [](const SimNetwork::Arrival&) {});
  network_->Place(1, 1);
  network_->Place(2, 2);
  const int64_t stream = network_->Open(1, 2, true);
  EXPECT_TRUE(network_->HasRoom(stream, 1));
  network_->Send(stream, 1, "1");
  network_->Send(stream, 1, "2");
  Run();
  EXPECT_FALSE(network_->HasRoom(stream, 1));
  EXPECT_EQ(network_->Took(stream, 2), 1);
  EXPECT_TRUE(network_->HasRoom(stream, 1));
}

TEST(SimClockTest, RunsAtItsRateAndJumpsOnTheWallAlone) {
  SimClock clock(2, 1'000);
  EXPECT_EQ(clock.MonotonicNs(100), 1'200);
  clock.SetRate(100, 1);
  EXPECT_EQ(clock.MonotonicNs(150), 1'250);
  clock.Jump(-5'000);
  EXPECT_EQ(clock.MonotonicNs(150), 1'250);
  EXPECT_EQ(clock.WallNs(150), -3'750);
  EXPECT_EQ(SimClock(2, 0).TrueDelayNs(100), 50);
}

}  // namespace
}  // namespace lockstep
