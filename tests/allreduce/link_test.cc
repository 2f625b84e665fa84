// The link's own promises, on every transport: order, back-pressure, deadlines that name peers, and
// reports that pass blocked data.
#include "allreduce/transport/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kExpiryMs = 300;

class LinkTest : public testing::TestWithParam<Transport> {
 protected:
  void Make(int n) { links_ = MakeLinks(GetParam(), n, /*channels=*/1, limits_, clock_, abort_); }
  Link& at(int rank) { return *links_[static_cast<size_t>(rank)]; }
  int64_t After(int64_t ms) const { return clock_.NowNs() + ms * kNsPerMs; }

  MessageHeader Header(uint64_t sequence, size_t bytes) const {
    MessageHeader header;
    header.epoch = 1;
    header.sequence = sequence;
    header.payload_bytes = bytes;
    return header;
  }
  SendRequest Send(int peer, uint64_t sequence, std::span<const std::byte> payload) const {
    SendRequest request;
    request.peer = peer;
    request.header = Header(sequence, payload.size());
    request.payload = payload;
    return request;
  }
  RecvRequest Recv(int peer, uint64_t sequence, std::span<std::byte> payload) const {
    RecvRequest request;
    request.peer = peer;
    request.expected = Header(sequence, payload.size());
    request.payload = payload;
    return request;
  }

  MonotonicClock clock_;
  Limits limits_;
  Abort abort_;
  std::vector<std::unique_ptr<Link>> links_;
};

TEST_P(LinkTest, MessagesOfAConnectionArriveInOrder) {
  Make(2);
  const std::array<std::byte, 2> first = {std::byte{1}, std::byte{2}};
  const std::array<std::byte, 1> second = {std::byte{3}};
  SendRequest send_first = Send(1, 0, first);
  SendRequest send_second = Send(1, 1, second);
  at(0).PostSend(&send_first);
  at(0).PostSend(&send_second);
  while (!send_second.done) ASSERT_THAT(at(0).Progress(After(10'000)), IsOk());
  std::array<std::byte, 2> got_first{};
  std::array<std::byte, 1> got_second{};
  RecvRequest recv_first = Recv(0, 0, got_first);
  RecvRequest recv_second = Recv(0, 1, got_second);
  at(1).PostRecv(&recv_first);
  at(1).PostRecv(&recv_second);
  EXPECT_FALSE(recv_first.done);
  while (!recv_second.done) ASSERT_THAT(at(1).Progress(After(10'000)), IsOk());
  EXPECT_TRUE(recv_first.done);
  EXPECT_EQ(got_first, first);
  EXPECT_EQ(got_second, second);
  EXPECT_EQ(at(0).traffic().sent_bytes, 2 * 48 + 3);
  EXPECT_EQ(at(0).traffic().sent_messages, 2);
  EXPECT_EQ(at(1).traffic().received_bytes, 2 * 48 + 3);
  EXPECT_EQ(at(1).traffic().received_messages, 2);
}

TEST_P(LinkTest, ADeadlineNamesThePeersWithPendingRequests) {
  Make(4);
  std::array<std::byte, 1> byte{};
  RecvRequest from_two = Recv(2, 0, byte);
  RecvRequest from_three = Recv(3, 0, byte);
  at(0).PostRecv(&from_two);
  at(0).PostRecv(&from_three);
  EXPECT_THAT(
      at(0).Progress(After(kExpiryMs)),
      StatusIs(StatusCode::kDeadlineExceeded, "rank 0 waited for ranks 2, 3 to send until"));
  at(0).Cancel();
  EXPECT_THAT(at(0).AwaitReports(After(1)),
              StatusIs(StatusCode::kDeadlineExceeded, "rank 0 got no more reports"));
}

// CASES R03, R51: it sleeps, whatever it looked at before.
TEST_P(LinkTest, ABlockedRankUsesUnderFivePercentOfACpu) {
  Make(4);
  std::array<std::byte, 1> byte{};
  std::array<RecvRequest, 3> recvs = {Recv(1, 0, byte), Recv(2, 0, byte), Recv(3, 0, byte)};
  for (RecvRequest& recv : recvs) at(0).PostRecv(&recv);
  const auto cpu_ns = [] {
    rusage usage{};
    CHECK_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * kNsPerSecond +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1'000;
  };
  constexpr int64_t kWaitMs = 600;
  const int64_t before_ns = cpu_ns();
  EXPECT_THAT(at(0).Progress(After(kWaitMs)), StatusIs(StatusCode::kDeadlineExceeded, "waited"));
  EXPECT_LT(cpu_ns() - before_ns, kWaitMs * kNsPerMs / 20);
  at(0).Cancel();
}

// Nobody receives: the connection fills up and holds the sender back, but a report still gets
// through.
TEST_P(LinkTest, ReportsPassBlockedData) {
  Make(3);
  const std::vector<std::byte> big(size_t{16} << 20);
  std::array<SendRequest, 3> sends = {Send(1, 0, big), Send(1, 1, big), Send(1, 2, big)};
  for (SendRequest& send : sends) at(0).PostSend(&send);
  absl::Status status;
  const int64_t deadline_ns = After(kExpiryMs);
  while (status.ok()) status = at(0).Progress(deadline_ns);
  EXPECT_THAT(status,
              StatusIs(StatusCode::kDeadlineExceeded, "rank 0 waited for rank 1 to receive"));
  EXPECT_FALSE(sends[2].done);
  at(0).Cancel();
  const std::string report = "it failed";
  at(0).SendReport(std::as_bytes(std::span(report)));
  for (const int rank : {1, 2}) {
    ASSERT_THAT(at(rank).AwaitReports(After(10'000)), IsOk());
    EXPECT_EQ(at(rank).peers()[0].report, report);
    std::array<std::byte, 1> byte{};
    RecvRequest recv = Recv(3 - rank, 0, byte);
    at(rank).PostRecv(&recv);
    EXPECT_THAT(at(rank).Progress(After(10'000)),
                StatusIs(StatusCode::kAborted, "rank 0 reports a failure"));
    at(rank).Cancel();
  }
}

// Work was pending, so there is no goodbye: all others see it, also those that want nothing from
// it.
TEST_P(LinkTest, ALinkThatDiesAtWorkIsALostRankForEverybody) {
  Make(3);
  std::array<std::byte, 1> byte{};
  RecvRequest dying = Recv(0, 0, byte);
  at(1).PostRecv(&dying);
  RecvRequest from_two = Recv(2, 0, byte);
  at(0).PostRecv(&from_two);
  links_[1].reset();
  EXPECT_THAT(at(0).Progress(After(10'000)),
              StatusIs(StatusCode::kUnavailable, "rank 0 lost rank 1"));
  EXPECT_TRUE(at(0).peers()[1].lost);
  at(0).Cancel();
}

// The same under a collective: every survivor names the dead rank, whoever it was waiting for.
TEST_P(LinkTest, ARankThatDiesInACollectiveIsNamedByAllSurvivors) {
  constexpr int kRanks = 4;
  Make(kRanks);
  std::array<std::byte, 1> byte{};
  RecvRequest dying = Recv(0, 0, byte);
  at(1).PostRecv(&dying);
  std::vector<absl::Status> statuses(kRanks, absl::UnavailableError("all_reduce #0 lost: rank 1."));
  const int64_t start_ns = clock_.NowNs();
  OnEachRank(kRanks, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    if (rank == 1) {
      links_[r].reset();
      return;
    }
    const auto communicator = MakeHostCommunicator(std::move(links_[r]), clock_, {});
    std::vector<float> data(100'000, 1.0F);
    statuses[r] = communicator->AllReduce(data.data(), 100'000, Dtype::kF32, ReduceOp::kSum);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable, "all_reduce #0"));
    EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable, "lost: rank 1."));
  }
  EXPECT_LT(clock_.NowNs() - start_ns, 5 * kNsPerSecond);
}

TEST_P(LinkTest, ALinkThatLeavesWithoutWorkIsNoLossUntilWanted) {
  Make(3);
  links_[1].reset();
  std::array<std::byte, 1> byte{};
  RecvRequest from_two = Recv(2, 0, byte);
  at(0).PostRecv(&from_two);
  EXPECT_THAT(at(0).Progress(After(kExpiryMs)), StatusIs(StatusCode::kDeadlineExceeded, "rank 2"));
  EXPECT_TRUE(at(0).peers()[1].left);
  EXPECT_FALSE(at(0).peers()[1].lost);
  RecvRequest from_one = Recv(1, 0, byte);
  at(0).PostRecv(&from_one);
  EXPECT_THAT(at(0).Progress(After(10'000)),
              StatusIs(StatusCode::kUnavailable, "rank 0 lost rank 1"));
  at(0).Cancel();
}

TEST_P(LinkTest, AnAbortThatIsThereEndsAWaitBeforeItStarts) {
  Make(2);
  abort_.Request(absl::CancelledError("stopped"));
  EXPECT_THAT(at(0).Progress(After(10'000)), StatusIs(StatusCode::kCancelled, "stopped"));
  EXPECT_THAT(at(0).AwaitReports(After(10'000)), StatusIs(StatusCode::kCancelled, "stopped"));
  EXPECT_THAT(at(0).abort_status(), StatusIs(StatusCode::kCancelled, "stopped"));
}

std::string TransportName(const testing::TestParamInfo<Transport>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, LinkTest,
                         testing::Values(Transport::kInProcess, Transport::kTcp, Transport::kShm),
                         TransportName);

}  // namespace
}  // namespace lockstep
