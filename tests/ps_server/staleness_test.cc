#include "ps_server/core/staleness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep {
namespace {

// A meter with what a shard tells it: the version of each read, and the slowest worker in it.
class Shard {
 public:
  explicit Shard(int32_t workers) : meter_(workers), steps_(static_cast<size_t>(workers), 0) {}

  void Read(int32_t worker, int64_t now_ns) {
    meter_.Read(worker, std::accumulate(steps_.begin(), steps_.end(), int64_t{0}),
                *std::min_element(steps_.begin(), steps_.end()), now_ns);
  }
  Staleness Apply(int32_t worker, int64_t now_ns) {
    const int64_t step = ++steps_[static_cast<size_t>(worker)];
    return meter_.Apply(worker, step, now_ns);
  }
  // As after a restart.
  void SaveAndRestore() {
    const std::vector<StalenessMark> marks = meter_.Save();
    meter_ = StalenessMeter(static_cast<int32_t>(steps_.size()));
    meter_.Restore(marks);
  }

 private:
  StalenessMeter meter_;
  std::vector<int64_t> steps_;
};

TEST(StalenessMeter, CountsOthersUpdatesBetweenReadAndApply) {
  Shard meter(3);
  for (int32_t w = 0; w < 3; ++w) meter.Read(w, 0);
  EXPECT_EQ(meter.Apply(0, 10).update, 0);
  meter.Read(0, 11);
  EXPECT_EQ(meter.Apply(1, 12).update, 1);  // worker 0's
  EXPECT_EQ(meter.Apply(2, 13).update, 2);
  // Its own update before the read doesn't count, nor does what came before the read.
  EXPECT_EQ(meter.Apply(0, 14).update, 2);
  meter.Read(1, 15);
  EXPECT_EQ(meter.Apply(1, 16).update, 0);
}

TEST(StalenessMeter, TheClockIsThatOfTheSlowestInTheRead) {
  Shard meter(2);
  for (int64_t step = 1; step <= 4; ++step) {
    meter.Read(0, 0);
    // Worker 1 stands at 0 all the time; a count of updates would be 0 throughout.
    const Staleness staleness = meter.Apply(0, 0);
    EXPECT_EQ(staleness.clock, step - 1);
    EXPECT_EQ(staleness.update, 0);
  }
  meter.Read(1, 0);
  EXPECT_EQ(meter.Apply(1, 0).clock, 0);  // all that it read is newer than its own step
}

TEST(StalenessMeter, AWorkerAloneIsNeverStale) {
  Shard meter(1);
  for (int step = 0; step < 5; ++step) {
    meter.Read(0, 0);
    const Staleness staleness = meter.Apply(0, 0);
    EXPECT_EQ(staleness.update, 0);
    EXPECT_EQ(staleness.clock, 0);
  }
}

TEST(StalenessMeter, GapAndCycleBelongToTheApplyThatEndsThem) {
  Shard meter(2);
  meter.Read(0, 5);
  EXPECT_FALSE(meter.Apply(0, 100).cycle_ns.has_value());  // nothing before it
  meter.Read(0, 130);
  meter.Apply(1, 140);
  const Staleness second = meter.Apply(0, 200);
  EXPECT_EQ(second.gap_ns, 30);
  EXPECT_EQ(second.cycle_ns, 100);
  EXPECT_EQ(second.update, 1);
}

// A worker whose stream broke pulls again: what it computes with is the last reply.
TEST(StalenessMeter, ALaterReadReplacesTheEarlier) {
  Shard meter(2);
  meter.Apply(0, 10);
  meter.Read(0, 20);
  meter.Apply(1, 30);
  meter.Read(0, 40);
  const Staleness staleness = meter.Apply(0, 60);
  EXPECT_EQ(staleness.update, 0);
  EXPECT_EQ(staleness.gap_ns, 30);
  EXPECT_EQ(staleness.cycle_ns, 50);
}

TEST(StalenessMeter, WithoutAReadThereIsNoGap) {
  Shard meter(2);
  meter.Read(0, 0);
  meter.Apply(0, 10);
  meter.Apply(1, 15);
  const Staleness staleness = meter.Apply(0, 20);
  EXPECT_FALSE(staleness.gap_ns.has_value());
  EXPECT_FALSE(staleness.cycle_ns.has_value());
  EXPECT_EQ(staleness.update, 1);  // since the read before
}

TEST(StalenessMeter, ARestartKeepsWhatWasReadAndForgetsTimes) {
  Shard meter(2);
  meter.Apply(0, 10);
  meter.Read(0, 20);
  meter.Apply(1, 30);
  meter.Apply(1, 40);
  meter.SaveAndRestore();
  const Staleness staleness = meter.Apply(0, 50);
  EXPECT_EQ(staleness.update, 2);
  EXPECT_EQ(staleness.clock, 1);
  EXPECT_FALSE(staleness.cycle_ns.has_value());
  meter.Read(0, 60);
  EXPECT_EQ(meter.Apply(0, 70).cycle_ns, 20);
}

}  // namespace
}  // namespace lockstep
