// A switch below another one: one group of a run may end alone, and ends with the run.
#include "base/abort.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;

bool Readable(const Abort& abort, int timeout_ms = 0) {
  pollfd fd{abort.fd(), POLLIN, 0};
  return poll(&fd, 1, timeout_ms) == 1;
}

TEST(ChildAbortTest, EndsAloneAndLeavesItsParentBe) {
  const Abort run;
  Abort group(&run);
  EXPECT_THAT(group.status(), IsOk());
  EXPECT_FALSE(Readable(group));
  group.Request(absl::UnavailableError("worker 2 is gone"));
  EXPECT_THAT(group.status(), StatusIs(StatusCode::kUnavailable, "worker 2"));
  EXPECT_TRUE(Readable(group));
  EXPECT_THAT(run.status(), IsOk());
  EXPECT_FALSE(Readable(run));
  const Abort next(&run);
  EXPECT_THAT(next.status(), IsOk());
}

TEST(ChildAbortTest, ItsParentWakesItsPollersFromAnyThread) {
  Abort run;
  const Abort group(&run);
  std::thread other([&] { run.Request(absl::CancelledError("interrupted")); });
  EXPECT_TRUE(Readable(group, 10'000));
  other.join();
  EXPECT_THAT(group.status(), StatusIs(StatusCode::kCancelled, "interrupted"));
}

// The run's end says more than the group's, whichever came first.
TEST(ChildAbortTest, TheParentsReasonGoesFirst) {
  Abort run;
  Abort group(&run);
  group.Request(absl::UnavailableError("worker 2 is gone"));
  run.Request(absl::CancelledError("interrupted"));
  EXPECT_THAT(group.status(), StatusIs(StatusCode::kCancelled, "interrupted"));
}

TEST(ChildAbortTest, AChildOfAChildHearsTheRoot) {
  Abort run;
  const Abort group(&run);
  const Abort part(&group);
  EXPECT_FALSE(Readable(part));
  run.Request(absl::CancelledError("interrupted"));
  EXPECT_TRUE(Readable(part));
  EXPECT_THAT(part.status(), StatusIs(StatusCode::kCancelled, "interrupted"));
}

}  // namespace
}  // namespace lockstep
