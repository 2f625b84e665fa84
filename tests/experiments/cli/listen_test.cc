#include "experiments/cli/listen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(ParseListenTest, HostWithOrWithoutPort) {
  const struct {
    const char* text;
    const char* endpoint;
  } cases[] = {{"10.0.0.1", "10.0.0.1:0"},   {"10.0.0.1:7000", "10.0.0.1:7000"},
               {"localhost", "localhost:0"}, {"localhost:0", "localhost:0"},
               {"::1", "[::1]:0"},           {"[::1]", "[::1]:0"},
               {"[::1]:7000", "[::1]:7000"}};
  for (const auto& test : cases) {
    const auto endpoint = ParseListen(test.text);
    ASSERT_THAT(endpoint, IsOk()) << test.text;
    EXPECT_EQ(endpoint->ToString(), test.endpoint);
  }
}

TEST(ParseListenTest, WhatIsNoAddressIsNamed) {
  for (const std::string text : {"", ":7000", "host:", "host:x", "host:70000", "[::1", "[]"}) {
    EXPECT_THAT(ParseListen(text), StatusIs(StatusCode::kInvalidArgument, "'" + text + "'"));
  }
  for (const char* text : {"0.0.0.0", "0.0.0.0:7000", "::", "[::]:7000"}) {
    EXPECT_THAT(ParseListen(text), StatusIs(StatusCode::kInvalidArgument, "every address"));
  }
}

TEST(CheckListenTest, ALocalNameWorksAndItsPortIsFreeAgain) {
  EXPECT_THAT(CheckListen({"localhost", 0}), IsOk());
  const auto listener = Listen({"127.0.0.1", 0});
  ASSERT_THAT(listener, IsOk());
}

// CASES R10, R11: three distinct errors with host, address and port, each in under 2 s.
TEST(CheckListenTest, ThreeDistinctErrors) {
  const MonotonicClock clock;
  const int64_t start_ns = clock.NowNs();
  const auto listener = Listen({"127.0.0.1", 0});
  ASSERT_THAT(listener, IsOk());
  const std::string taken = listener->endpoint.ToString();
  EXPECT_THAT(CheckListen(listener->endpoint),
              StatusIs(StatusCode::kResourceExhausted, "port of " + taken + " is taken"));
  EXPECT_THAT(
      CheckListen({"192.0.2.1", 7000}),  // TEST-NET-1: nobody's
      StatusIs(StatusCode::kFailedPrecondition, "192.0.2.1:7000 is not an address of this host"));
  EXPECT_THAT(
      CheckListen({"no-such-host.invalid", 7000}),
      StatusIs(StatusCode::kNotFound, "host of no-such-host.invalid:7000 does not resolve"));
  EXPECT_LT(clock.NowNs() - start_ns, 2 * kNsPerSecond);
}

}  // namespace
}  // namespace lockstep
