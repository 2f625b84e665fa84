// The mesh: who may join, who is named when it doesn't come up, and what a stranger achieves:
// nothing.
#include "allreduce/transport/tcp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/transport/tcp_hello.h"
#include "base/status.h"
#include "tests/allreduce/group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kExpiryMs = 300;

// Connected sockets of this process under this congestion control.
int ConnectionsUnder(const std::string& congestion_control) {
  constexpr int kFdsMax = 1'024;
  int found = 0;
  for (int fd = 0; fd < kFdsMax; ++fd) {
    std::array<char, 16> name{};
    socklen_t name_size = name.size();
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &name_size) == 0 &&
        congestion_control == name.data()) {
      ++found;
    }
  }
  return found;
}

class MeshTest : public testing::Test {
 protected:
  using LinkOr = absl::StatusOr<std::unique_ptr<Link>>;

  void ListenFor(int n) { std::tie(listeners_, endpoints_) = ListenOnLoopback(n); }
  TcpGroup Group(int rank) const { return {rank, endpoints_, /*epoch=*/7, "secret", 2}; }
  LinkOr Connect(const TcpGroup& group) {
    return ConnectTcpMesh(std::move(listeners_[static_cast<size_t>(group.rank)]), group, limits_,
                          clock_, abort_);
  }
  // Connects and sends bytes; the other end decides what to do with them.
  UniqueFd Stranger(int rank, const std::string& bytes) {
    absl::StatusOr<UniqueFd> fd = StartConnect(endpoints_[static_cast<size_t>(rank)]);
    CHECK(fd.ok()) << fd.status();
    pollfd poll_fd{fd->get(), POLLOUT, 0};
    CHECK_EQ(poll(&poll_fd, 1, 10'000), 1);
    CHECK_EQ(send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
             static_cast<ssize_t>(bytes.size()));
    return *std::move(fd);
  }

  Limits limits_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<Listener> listeners_;
  std::vector<Endpoint> endpoints_;
};

TEST_F(MeshTest, NamesEveryRankThatDidNotConnect) {
  ListenFor(4);
  limits_.connect_timeout_ms = kExpiryMs;
  std::vector<absl::Status> statuses(4);
  OnEachRank(4, [&](int rank) {
    if (rank < 2) statuses[static_cast<size_t>(rank)] = Connect(Group(rank)).status();
  });
  for (const size_t rank : {0U, 1U}) {
    EXPECT_THAT(statuses[rank], StatusIs(StatusCode::kDeadlineExceeded,
                                         absl::StrCat("rank ", rank,
                                                      " of 4: no connection within 300 ms "
                                                      "(limits.connect_timeout_ms) with ranks 2 (",
                                                      endpoints_[2].ToString(), "), 3 (",
                                                      endpoints_[3].ToString(), ")")));
    EXPECT_THAT(BlamedBy(statuses[rank]), ElementsAre("rank 2", "rank 3"));
  }
}

TEST_F(MeshTest, ConnectTimeoutAtItsLeast) {
  ListenFor(2);
  limits_.connect_timeout_ms = 1;
  EXPECT_THAT(Connect(Group(0)).status(),
              StatusIs(StatusCode::kDeadlineExceeded, "limits.connect_timeout_ms) with rank 1"));
}

TEST_F(MeshTest, NamesARankWhoseListenerIsGone) {
  ListenFor(2);
  listeners_[0] = Listener();
  const absl::Status status = Connect(Group(1)).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable, "rank 1: rank 0 at 127.0.0.1:"));
  EXPECT_THAT(BlamedBy(status), ElementsAre("rank 0"));
}

TEST_F(MeshTest, NamesARankWhoseAddressIsOfNoUse) {
  ListenFor(2);
  endpoints_[0].host = "no-such-host.invalid";
  const absl::Status status = Connect(Group(1)).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kNotFound, "rank 1 to rank 0: "));
  EXPECT_THAT(BlamedBy(status), ElementsAre("rank 0"));
}

TEST_F(MeshTest, AnAbortEndsTheWait) {
  ListenFor(2);
  std::thread aborts([&] { abort_.Request(absl::CancelledError("stopped")); });
  EXPECT_THAT(Connect(Group(0)).status(), StatusIs(StatusCode::kCancelled, "stopped"));
  aborts.join();
}

// They are closed, whatever they say, or ignored while they say nothing; the mesh comes up beside
// them.
TEST_F(MeshTest, StrangersAreClosedAndIgnored) {
  ListenFor(2);
  const std::string good = EncodeHello(Group(1), 0);
  TcpGroup other_token = Group(1);
  other_token.token = "s3cret";
  TcpGroup other_epoch = Group(1);
  other_epoch.epoch = 6;
  std::vector<UniqueFd> closed;
  closed.push_back(Stranger(0, "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n"));
  closed.push_back(Stranger(0, EncodeHello(other_token, 0)));
  closed.push_back(Stranger(0, EncodeHello(other_epoch, 0)));
  closed.push_back(Stranger(0, EncodeHello(Group(0), 0)));  // claims to be the listener itself
  closed.push_back(Stranger(0, EncodeHello(Group(1), 2)));  // a channel there isn't
  std::string endless = good;
  endless.replace(offsetof(Hello, token_bytes), 4, "\xff\xff\xff\x7f");  // a token of 2 GiB
  closed.push_back(Stranger(0, endless));
  const UniqueFd silent = Stranger(0, "");
  const UniqueFd half = Stranger(0, good.substr(0, 20));
  std::vector<LinkOr> links;
  links.emplace_back(absl::UnknownError(""));
  links.emplace_back(absl::UnknownError(""));
  OnEachRank(2, [&](int rank) { links[static_cast<size_t>(rank)] = Connect(Group(rank)); });
  EXPECT_THAT(links[0], IsOk());
  EXPECT_THAT(links[1], IsOk());
  for (const UniqueFd& fd : closed) {
    pollfd poll_fd{fd.get(), POLLIN, 0};
    ASSERT_EQ(poll(&poll_fd, 1, 10'000), 1);
    std::array<char, 1> byte{};
    EXPECT_LE(recv(fd.get(), byte.data(), 1, MSG_DONTWAIT), 0);
  }
}

TEST_F(MeshTest, ARankWithAnotherTokenIsRefusedAndNamed) {
  ListenFor(2);
  limits_.connect_timeout_ms = kExpiryMs;
  std::vector<absl::Status> statuses(2);
  OnEachRank(2, [&](int rank) {
    TcpGroup group = Group(rank);
    if (rank == 1) group.token = "other!";
    statuses[static_cast<size_t>(rank)] = Connect(group).status();
  });
  EXPECT_THAT(statuses[0], StatusIs(StatusCode::kDeadlineExceeded, "with rank 1 (127"));
  EXPECT_THAT(statuses[1],
              StatusIs(StatusCode::kUnavailable, "epoch, world size, version or token"));
}

TEST_F(MeshTest, RefusesAGroupThatMakesNoSense) {
  ListenFor(2);
  TcpGroup group = Group(1);
  group.channels = 0;
  EXPECT_THAT(Connect(group).status(), StatusIs(StatusCode::kInvalidArgument, "channels 0"));
  group = Group(0);
  group.rank = 2;
  EXPECT_THAT(ConnectTcpMesh(Listener(), group, limits_, clock_, abort_).status(),
              StatusIs(StatusCode::kInvalidArgument, "rank 2 is not one of 2 endpoints"));
  group = Group(0);
  group.token = std::string(257, 'x');
  EXPECT_THAT(Connect(group).status(), StatusIs(StatusCode::kInvalidArgument, "at most 256"));
}

TEST_F(MeshTest, RefusesACongestionControlThatThereIsNot) {
  ListenFor(2);
  TcpGroup group = Group(0);
  group.congestion_control = "carrier_pigeon";
  const absl::Status status = Connect(group).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument,
                               "congestion control 'carrier_pigeon' cannot be used"));
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, TcpCongestionControl()));
}

TEST_F(MeshTest, TheCongestionControlAskedForIsUsed) {
  ListenFor(2);
  std::vector<LinkOr> links;
  links.emplace_back(absl::UnknownError(""));
  links.emplace_back(absl::UnknownError(""));
  OnEachRank(2, [&](int rank) {
    TcpGroup group = Group(rank);
    group.congestion_control = "reno";  // every kernel has it
    links[static_cast<size_t>(rank)] = Connect(group);
  });
  ASSERT_THAT(links[0], IsOk());
  ASSERT_THAT(links[1], IsOk());
  EXPECT_EQ(ConnectionsUnder("reno"), 2 * 3);  // both ends of the control and of two data channels
}

// An abort of one process ends its own wait at once, and the others learn who was aborted and why.
TEST_F(MeshTest, AnAbortOfOneRankIsToldToTheOthers) {
  constexpr int kRanks = 3;
  ListenFor(kRanks);
  std::array<Abort, kRanks> aborts;
  std::vector<absl::Status> statuses(kRanks);
  OnEachRank(kRanks, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    LinkOr link = ConnectTcpMesh(std::move(listeners_[r]), Group(rank), limits_, clock_, aborts[r]);
    CHECK(link.ok()) << link.status();
    const auto communicator = MakeHostCommunicator(*std::move(link), clock_, {});
    if (rank == 1) aborts[1].Request(absl::CancelledError("stopped by the user"));
    float value = 1.0F;
    statuses[r] = communicator->AllReduce(&value, 1, Dtype::kF32, ReduceOp::kSum);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(StatusCode::kCancelled, "stopped by the user"));
  }
}

TEST(TcpTest, CongestionControlIsOneTheKernelHas) {
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  const std::string available((std::istreambuf_iterator<char>(file)),
                              std::istreambuf_iterator<char>());
  ASSERT_FALSE(TcpCongestionControl().empty());
  if (available.empty()) GTEST_SKIP() << "no list to compare with";
  EXPECT_THAT(available, HasSubstr(TcpCongestionControl()));
}

TEST(HelloTest, TokensAreEqualOnlyWhenTheyAre) {
  EXPECT_TRUE(TokensEqual("", ""));
  EXPECT_TRUE(TokensEqual("abc", "abc"));
  EXPECT_FALSE(TokensEqual("abc", "abd"));
  EXPECT_FALSE(TokensEqual("abc", "abcd"));
}

}  // namespace
}  // namespace lockstep
