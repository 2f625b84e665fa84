#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/abort.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/socket.h"
#include "base/status.h"
#include "base/sync.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

TEST(StatusTest, AnnotatePutsContextFirstAndKeepsTheCode) {
  EXPECT_THAT(Annotate(absl::NotFoundError("port"), "ring, rank 1"),
              StatusIs(StatusCode::kNotFound, "ring, rank 1: port"));
  EXPECT_THAT(Annotate(absl::OkStatus(), "ring"), IsOk());
}

TEST(StatusTest, BlameIsCarriedThroughAnnotations) {
  const absl::Status lost = Blame(absl::UnavailableError("gone"), {"worker 2", "server 0"});
  EXPECT_THAT(BlamedBy(Annotate(lost, "ring")), testing::ElementsAre("worker 2", "server 0"));
  EXPECT_THAT(BlamedBy(absl::UnavailableError("gone")), testing::IsEmpty());
  EXPECT_THAT(Blame(absl::OkStatus(), {"worker 2"}), IsOk());
}

TEST(EndpointTest, ReadsAndPrintsBothFamilies) {
  for (const std::string text : {"127.0.0.1:7000", "[::1]:7000", "host-a:1"}) {
    const auto endpoint = ParseEndpoint(text);
    ASSERT_THAT(endpoint, IsOk());
    EXPECT_EQ(endpoint->ToString(), text);
  }
}

TEST(EndpointTest, MalformedTextIsNamed) {
  for (const std::string text :
       {"", "7000", ":7000", "host:", "host:70000", "host:-1", "::1:7000", "[]:1"}) {
    EXPECT_THAT(ParseEndpoint(text), StatusIs(StatusCode::kInvalidArgument, text)) << text;
  }
}

// CASES R10, R11: three distinct errors, each with host and port.
TEST(ListenTest, EachFailureHasItsOwnError) {
  const auto first = Listen({"127.0.0.1", 0});
  ASSERT_THAT(first, IsOk());
  EXPECT_NE(first->endpoint.port, 0);
  EXPECT_THAT(Listen(first->endpoint),
              StatusIs(StatusCode::kResourceExhausted, first->endpoint.ToString()));
  EXPECT_THAT(Listen({"203.0.113.7", 0}), StatusIs(StatusCode::kFailedPrecondition,
                                                   "203.0.113.7:0 is not an address of this host"));
  EXPECT_THAT(Listen({"no-such-host.invalid", 7}),
              StatusIs(StatusCode::kNotFound, "no-such-host.invalid:7"));
}

TEST(AbortTest, TheFirstRequestWinsAndWakesPollers) {
  Abort abort;
  EXPECT_THAT(abort.status(), IsOk());
  pollfd fd{abort.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&fd, 1, 0), 0);
  std::thread other([&] { abort.Request(absl::UnavailableError("worker 2 is gone")); });
  EXPECT_EQ(poll(&fd, 1, 10'000), 1);
  other.join();
  abort.Request(absl::CancelledError("late"));
  EXPECT_THAT(abort.status(), StatusIs(StatusCode::kUnavailable, "worker 2"));
}

TEST(MutexTest, AwaitForEndsAtTheConditionOrAtTheTimeout) {
  Mutex mu;
  bool ready = false;
  std::thread other([&] {
    MutexLock lock(&mu);
    ready = true;
  });
  {
    MutexLock lock(&mu);
    EXPECT_TRUE(mu.AwaitFor([&] { return ready; }, 10'000));
    const MonotonicClock clock;
    const int64_t start_ns = clock.NowNs();
    EXPECT_FALSE(mu.AwaitFor([] { return false; }, 300));
    EXPECT_GE((clock.NowNs() - start_ns) / kNsPerMs, 299);
  }
  other.join();
}

TEST(FingerprintTest, KnownValueAndSensitivity) {
  std::array<std::byte, 16> bytes{};
  const std::string zero = Fingerprint(bytes);
  EXPECT_EQ(zero.size(), 32U);
  EXPECT_EQ(Fingerprint({}), "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing, published
  bytes[7] = std::byte{1};
  EXPECT_NE(Fingerprint(bytes), zero);
}

TEST(ExitCodeTest, EachFailureHasItsCode) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), 1);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), 3);
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("")), 3);
  EXPECT_EQ(ExitCodeFor(absl::ResourceExhaustedError("")), 4);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("")), 5);
}

TEST(LimitsTest, EveryFieldHasARowAndItsDefaultIsInRange) {
  const Limits limits;
  EXPECT_EQ(kLimitRows.size() * sizeof(int64_t), sizeof(Limits));
  for (const LimitRow& row : kLimitRows) {
    EXPECT_GE(limits.*row.field, row.min) << row.name;
    EXPECT_LE(limits.*row.field, row.max) << row.name;
  }
}

}  // namespace
}  // namespace lockstep
