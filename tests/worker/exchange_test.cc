// StepExchange around a synchroniser that waits for the test: what overlaps, in which order, and
// how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/support/status_matchers.h"
#include "worker/sync/step_exchange.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

constexpr int kBuckets = 3;
constexpr int64_t kTestMs = 5'000;
constexpr int64_t kPollMs = 5;

// A clock that the test moves while another thread reads it.
class SharedClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceMs(int64_t ms) { now_ns_ += ms * kNsPerMs; }

 private:
  std::atomic<int64_t> now_ns_ = 0;
};

// Notes its calls; each takes 5 ms on the test's clock and, once closed, until the test opens it
// or aborts.
class GatedSynchronizer final : public Synchronizer {
 public:
  GatedSynchronizer(SharedClock* clock, const Abort& abort) : clock_(clock), abort_(abort) {}

  absl::StatusOr<int64_t> Begin(std::span<float> /*parameters*/) override { return 0; }
  absl::Status GradientReady(int64_t step, const Bucket& bucket,
                             std::span<float> /*gradients*/) override {
    return Note(absl::StrCat(step, ".", bucket.index), bucket.index == failing_bucket);
  }
  absl::Status Finish(int64_t step, std::span<float> /*gradients*/,
                      std::span<float> /*parameters*/) override {
    return Note(absl::StrCat(step, ".finish"), false);
  }
  SetUpFacts set_up() const override { return {}; }
  void LogMessages(MessageLog* /*log*/) override {}
  HeldState Held(int64_t step) const override { return {.step = step}; }
  std::span<const float> optimizer_state() const override { return {}; }
  Traffic traffic() const override { return {.sent_bytes = sent_bytes_}; }

  void Close() {
    MutexLock lock(&mu_);
    open_ = false;
  }
  void Open() {
    MutexLock lock(&mu_);
    open_ = true;
  }
  std::vector<std::string> calls() {
    MutexLock lock(&mu_);
    return calls_;
  }
  void AwaitCall(const std::string& call) {
    MutexLock lock(&mu_);
    const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !calls_.empty() && calls_.back() == call;
    };
    EXPECT_TRUE(mu_.AwaitFor(there, kTestMs)) << call;
  }

  int failing_bucket = -1;

 private:
  absl::Status Note(const std::string& call, bool fails) {
    MutexLock lock(&mu_);
    calls_.push_back(call);
    const auto open = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return open_; };
    for (int64_t waited_ms = 0; !mu_.AwaitFor(open, kPollMs); waited_ms += kPollMs) {
      RETURN_IF_ERROR(abort_.status());
      if (waited_ms > kTestMs) return absl::InternalError("the test never opened the gate");
    }
    clock_->AdvanceMs(5);
    sent_bytes_ += 100;
    return fails ? absl::UnavailableError(absl::StrCat("planned at ", call)) : absl::OkStatus();
  }

  SharedClock* const clock_;
  const Abort& abort_;
  int64_t sent_bytes_ = 0;  // the exchange's calls alone touch it
  Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mu_);
};

class ExchangeTest : public testing::Test {
 protected:
  std::unique_ptr<StepExchange> Make(bool overlap) {
    return std::make_unique<StepExchange>(
        &synchronizer_,
        StepExchangeOptions{
            .overlap = overlap, .buckets = kBuckets, .call_timeout_ms = 1'000, .arrived = arrived_},
        clock_, abort_);
  }
  absl::Status Ready(StepExchange* exchange, int64_t step, int bucket) {
    return exchange->Ready(step, {.index = bucket}, gradients_);
  }
  absl::Status Finish(StepExchange* exchange, int64_t step) {
    return exchange->Finish(step, gradients_, parameters_);
  }

  SharedClock clock_;
  Abort abort_;
  GatedSynchronizer synchronizer_{&clock_, abort_};
  std::vector<float> gradients_ = {1};
  std::vector<float> parameters_ = {2};
  std::function<absl::Status(int64_t step, const Bucket& bucket)> arrived_;
};

class BothWaysTest : public ExchangeTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, BothWaysTest, testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Overlapped" : "Inline");
});

// Waiting for a bucket to arrive is no part of its exchange, and one that does not is not
// exchanged.
TEST_P(BothWaysTest, ABucketIsExchangedOnceItHasArrived) {
  arrived_ = [this](int64_t step, const Bucket& bucket) {
    clock_.AdvanceMs(7);
    return bucket.index < 1 ? absl::OkStatus()
                            : absl::DataLossError(absl::StrCat("step ", step, " is not here"));
  };
  const auto exchange = Make(GetParam());
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    Ready(exchange.get(), 1, bucket).IgnoreError();
  }
  EXPECT_THAT(Finish(exchange.get(), 1),
              StatusIs(absl::StatusCode::kDataLoss, "step 1 is not here"));
  EXPECT_THAT(synchronizer_.calls(), ElementsAre("1.0"));
  const std::vector<CallSpan> spans = exchange->TakeSpans();
  ASSERT_FALSE(spans.empty());
  EXPECT_EQ(spans[0].end_ns - spans[0].start_ns, 5 * kNsPerMs);
}

TEST_P(BothWaysTest, CallsKeepTheirOrderAndEachHasASpan) {
  const auto exchange = Make(GetParam());
  for (int64_t step = 1; step <= 2; ++step) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      ASSERT_THAT(Ready(exchange.get(), step, bucket), IsOk());
    }
    ASSERT_THAT(Finish(exchange.get(), step), IsOk());
    const std::vector<CallSpan> spans = exchange->TakeSpans();
    ASSERT_EQ(spans.size(), 4U);
    int64_t before_ns = (step - 1) * 20 * kNsPerMs;
    for (size_t i = 0; i < spans.size(); ++i) {
      EXPECT_EQ(spans[i].bucket, i < 3 ? static_cast<int>(i) : kFinishSpan);
      EXPECT_EQ(spans[i].start_ns, before_ns) << "one at a time";
      EXPECT_EQ(spans[i].end_ns - spans[i].start_ns, 5 * kNsPerMs);
      before_ns = spans[i].end_ns;
    }
  }
  EXPECT_THAT(synchronizer_.calls(),
              ElementsAre("1.0", "1.1", "1.2", "1.finish", "2.0", "2.1", "2.2", "2.finish"));
  EXPECT_EQ(exchange->traffic().sent_bytes, 800);
}

TEST_P(BothWaysTest, AnErrorComesOutAndEndsTheCalls) {
  synchronizer_.failing_bucket = 1;
  const auto exchange = Make(GetParam());
  ASSERT_THAT(Ready(exchange.get(), 1, 0), IsOk());
  const absl::Status at_once = Ready(exchange.get(), 1, 1);
  if (!GetParam()) {
    EXPECT_THAT(at_once, StatusIs(absl::StatusCode::kUnavailable, "planned at 1.1"));
  }
  // With overlap it comes out of the next Ready or of Finish, whichever it meets.
  const absl::Status next = Ready(exchange.get(), 1, 2);
  EXPECT_TRUE(next.ok() || next.message() == "planned at 1.1") << next;
  EXPECT_THAT(Finish(exchange.get(), 1),
              StatusIs(absl::StatusCode::kUnavailable, "planned at 1.1"));
  EXPECT_THAT(Ready(exchange.get(), 2, 0),
              StatusIs(absl::StatusCode::kUnavailable, "planned at 1.1"));
  EXPECT_THAT(synchronizer_.calls(), ElementsAre("1.0", "1.1"));
}

// Two threads take the calls: where one fails, the other must not take the next, least of all the
// optimizer's, which would use gradients that were never summed.
TEST_F(ExchangeTest, NothingRunsAfterAFailureWhicheverThreadMetIt) {
  constexpr int kRounds = 500;
  synchronizer_.failing_bucket = 2;
  for (int round = 1; round <= kRounds; ++round) {
    const auto exchange = Make(/*overlap=*/true);
    const absl::Status ready = Ready(exchange.get(), round, 2);
    EXPECT_TRUE(ready.ok() || ready.message() == absl::StrCat("planned at ", round, ".2")) << ready;
    EXPECT_THAT(Finish(exchange.get(), round),
                StatusIs(absl::StatusCode::kUnavailable, absl::StrCat("planned at ", round, ".2")));
    for (int turn = 0; turn < 100; ++turn) {  // the other thread's chance
      exchange->traffic();
      std::this_thread::yield();
    }
    EXPECT_EQ(exchange->Stop(), 0) << "a step is through";
    ASSERT_EQ(synchronizer_.calls().size(), static_cast<size_t>(round));
  }
}

TEST_F(ExchangeTest, ReadyReturnsWhileTheExchangeRunsAndFinishWaitsForIt) {
  const auto exchange = Make(/*overlap=*/true);
  synchronizer_.Close();
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    ASSERT_THAT(Ready(exchange.get(), 1, bucket), IsOk());  // the first has not ended: it can't
  }
  synchronizer_.AwaitCall("1.0");
  EXPECT_EQ(exchange->traffic().sent_bytes, 0) << "readable while a call is under way";
  std::atomic<bool> finished = false;
  std::thread opener([&] {
    synchronizer_.AwaitCall("1.0");
    EXPECT_FALSE(finished);
    synchronizer_.Open();
  });
  EXPECT_THAT(Finish(exchange.get(), 1), IsOk());
  finished = true;
  opener.join();
  EXPECT_THAT(synchronizer_.calls(), ElementsAre("1.0", "1.1", "1.2", "1.finish"));
  EXPECT_EQ(exchange->TakeSpans().size(), 4U) << "Finish returned before the last call";
}

TEST_F(ExchangeTest, AHungCallEndsTheWaitAndIsNamed) {
  const auto exchange = Make(/*overlap=*/true);
  synchronizer_.Close();
  ASSERT_THAT(Ready(exchange.get(), 7, 0), IsOk());
  synchronizer_.AwaitCall("7.0");  // or Finish would make the call itself
  std::atomic<bool> finished = false;
  std::thread mover([&] {  // Finish reads the clock first when it begins to wait
    while (!finished) {
      clock_.AdvanceMs(10);
      std::this_thread::yield();
    }
  });
  EXPECT_THAT(Finish(exchange.get(), 7),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "step 7: the exchange of bucket 0 of 3 was not through"));
  finished = true;
  mover.join();
  abort_.Request(absl::CancelledError("the call would hang for ever"));
}

TEST_F(ExchangeTest, AnAbortEndsTheWaitAndTheCall) {
  auto exchange = Make(/*overlap=*/true);
  synchronizer_.Close();
  for (int bucket = 0; bucket < 2; ++bucket) {
    ASSERT_THAT(Ready(exchange.get(), 1, bucket), IsOk());
  }
  synchronizer_.AwaitCall("1.0");
  abort_.Request(absl::CancelledError("stop"));
  EXPECT_THAT(Finish(exchange.get(), 1), StatusIs(absl::StatusCode::kCancelled, "stop"));
  exchange.reset();
  EXPECT_THAT(synchronizer_.calls(), ElementsAre("1.0")) << "what waited is dropped";
}

}  // namespace
}  // namespace lockstep
