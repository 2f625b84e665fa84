// Measuring the link and logging messages: for records, beside the collectives and without a trace
// in their results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

constexpr int64_t kExpiryMs = 300;

absl::Status AllReduce(Communicator* communicator, int64_t count) {
  std::vector<int64_t> data(static_cast<size_t>(count), 1);
  return communicator->AllReduce(data.data(), count, Dtype::kI64, ReduceOp::kSum);
}

class MeasureTest : public testing::TestWithParam<Transport> {};

TEST_P(MeasureTest, RankZeroAloneLearnsTheCostAndTheGroupGoesOn) {
  for (const int n : {2, 4}) {
    RankGroup group({n, GetParam()});
    std::vector<std::optional<LinkCost>> costs(static_cast<size_t>(n));
    for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
           RETURN_IF_ERROR(AllReduce(&communicator, 10));
           ASSIGN_OR_RETURN(costs[static_cast<size_t>(rank)], communicator.MeasureLink());
           return AllReduce(&communicator, 10);
         })) {
      EXPECT_THAT(status, IsOk());
    }
    ASSERT_TRUE(costs[0].has_value());
    EXPECT_GT(costs[0]->alpha_ns, 0);
    EXPECT_GE(costs[0]->beta_ns_per_byte, 0);
    EXPECT_EQ(costs[0]->large_bytes, 256 << 10);
    EXPECT_EQ(costs[0]->samples, 20);
    EXPECT_EQ(costs[0]->link, GetParam() == Transport::kTcp ? "tcp" : "in_process");
    for (size_t rank = 1; rank < costs.size(); ++rank) EXPECT_FALSE(costs[rank].has_value());
  }
}

TEST_P(MeasureTest, LargeMessagesAreAChunkAtMost) {
  GroupOptions options{2, GetParam()};
  options.limits.chunk_bytes = 1'000;
  RankGroup group(options);
  std::vector<std::optional<LinkCost>> costs(2);
  for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
         ASSIGN_OR_RETURN(costs[static_cast<size_t>(rank)], communicator.MeasureLink());
         return absl::OkStatus();
       })) {
    EXPECT_THAT(status, IsOk());
  }
  EXPECT_EQ(costs[0]->large_bytes, 1'000);
}

// The others aren't part of the call, so they can't be missing.
TEST_P(MeasureTest, AMissingRankOneIsNamedAlone) {
  GroupOptions options{4, GetParam()};
  options.limits = TestLimits(kExpiryMs);
  RankGroup group(options);
  const absl::Status status = group.at(0).MeasureLink().status();
  EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded, "ping_pong #0 (u8, count 262144"));
  EXPECT_THAT(status, StatusIs(StatusCode::kDeadlineExceeded, "missing: rank 1."));
  EXPECT_THAT(BlamedBy(status), ElementsAre("rank 1"));
  EXPECT_EQ(group.at(0).MeasureLink().status(), status) << "the group is dead";
}

TEST_P(MeasureTest, ACollectiveInItsPlaceIsAMismatch) {
  GroupOptions options{2, GetParam()};
  RankGroup group(options);
  for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
         return rank == 0 ? communicator.MeasureLink().status() : AllReduce(&communicator, 10);
       })) {
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "ping_pong #0 (u8, count 262144"));
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "all_reduce #0 (i64 sum"));
  }
}

std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, MeasureTest, testing::Values(Transport::kInProcess, Transport::kTcp),
                         TransportName);

TEST(MeasureAloneTest, OneRankHasNoLink) {
  RankGroup group({1});
  const auto cost = group.at(0).MeasureLink();
  ASSERT_THAT(cost, IsOk());
  EXPECT_FALSE(cost->has_value());
}

// All messages of a call, each with its partner, in possible order: sent before received.
class LogTest : public testing::TestWithParam<std::tuple<Way, Transport>> {};

TEST_P(LogTest, EverySendMeetsItsReceive) {
  constexpr int kInputs = 3;
  GroupOptions options = OptionsOf(std::get<Way>(GetParam()), kInputs);
  options.transport = std::get<Transport>(GetParam());
  options.channels = 2;
  options.limits.chunk_bytes = 256;
  RankGroup group(options);
  std::vector<MessageLog> logs(static_cast<size_t>(group.n()), MessageLog(10'000));
  const auto all_reduce = [](int, Communicator& communicator) {
    return AllReduce(&communicator, 1'000);
  };
  std::vector<Traffic> before(logs.size());
  std::vector<Traffic> after(logs.size());
  for (const absl::Status& status : group.Run([&](int rank, Communicator&communicator) {
         const auto r = static_cast<size_t>(rank);
         RETURN_IF_ERROR(all_reduce(rank, communicator));
         before[r] = communicator.traffic();
         communicator.LogMessages(&logs[r]);
         RETURN_IF_ERROR(all_reduce(rank, communicator));
         RETURN_IF_ERROR(all_reduce(rank, communicator));
         after[r] = communicator.traffic();
         communicator.LogMessages(nullptr);
         return all_reduce(rank, communicator);
       })) {
    EXPECT_THAT(status, IsOk());
  }
  std::map<std::array<int64_t, 4>, LoggedMessage> sends;  // sender, receiver, channel, sequence
  std::vector<std::pair<int, LoggedMessage>> receives;
  for (int rank = 0; rank < group.n(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    int64_t sent_bytes = 0;
    const std::vector<LoggedMessage> messages = logs[r].Take();
    for (const LoggedMessage& message : messages) {
      EXPECT_LE(message.start_ns, message.end_ns);
      if (!message.sent) {
        receives.emplace_back(rank, message);
        continue;
      }
      sent_bytes += message.bytes + 48;
      const auto sequence = static_cast<int64_t>(message.sequence);
      EXPECT_TRUE(
          sends.try_emplace({rank, message.peer, message.channel, sequence}, message).second);
    }
    const Traffic logged = after[r] - before[r];
    EXPECT_EQ(static_cast<int64_t>(messages.size()),
              logged.sent_messages + logged.received_messages);
    EXPECT_EQ(sent_bytes, logged.sent_bytes);
    EXPECT_EQ(logs[r].dropped(), 0);
  }
  ASSERT_EQ(receives.size(), sends.size());
  for (const auto& [rank, message] : receives) {
    const auto send =
        sends.find({message.peer, rank, message.channel, static_cast<int64_t>(message.sequence)});
    ASSERT_NE(send, sends.end());
    EXPECT_EQ(send->second.bytes, message.bytes);
    EXPECT_LE(send->second.start_ns, message.end_ns);
  }
}

std::string WayName(const testing::TestParamInfo<std::tuple<Way, Transport>>& info) {
  return absl::StrCat(NameOf(std::get<Way>(info.param)), NameOf(std::get<Transport>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, LogTest,
                         testing::Combine(testing::ValuesIn(AllWays()),
                                          testing::Values(Transport::kInProcess, Transport::kTcp)),
                         WayName);

TEST(LogBoundTest, WhatDoesNotFitIsCounted) {
  RankGroup group({2});
  MessageLog log(1);
  group.at(0).LogMessages(&log);
  for (const absl::Status& status :
       group.Run([](int, Communicator& communicator) { return AllReduce(&communicator, 10); })) {
    EXPECT_THAT(status, IsOk());
  }
  EXPECT_EQ(log.dropped(), 3);  // two sent and two received
  EXPECT_EQ(log.Take().size(), 1U);
  EXPECT_EQ(log.dropped(), 0);
}

}  // namespace
}  // namespace lockstep
