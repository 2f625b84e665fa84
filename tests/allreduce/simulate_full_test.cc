// The worlds that issue and header promise to fit: time and memory of the simulator itself.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "allreduce/schedule/simulate.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

// Unoptimised and instrumented builds show that it runs, not how fast or how small.
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double kSecondsMax = 60;
constexpr int64_t kPeakBytesMax = 1'000'000'000;
#else
constexpr double kSecondsMax = 1e9;
constexpr int64_t kPeakBytesMax = INT64_MAX;
#endif

constexpr CostModel kCost = {
    .latency_ns = 1'000, .overhead_ns = 100, .beta_ns_per_byte = 0.1, .gamma_ns_per_byte = 0.05};
constexpr int64_t kBytes = 1'000'000'000;

rusage Usage() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage;
}

// Of the processor, since a machine may be shared.
double Seconds() {
  const timeval time = Usage().ru_utime;
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

int64_t PeakBytes() { return int64_t{1024} * Usage().ru_maxrss; }

void Check(const ScheduleSpec& spec) {
  const double begin = Seconds();
  const auto result = Simulate(spec, {.cost = kCost, .bytes = kBytes});
  const double elapsed = Seconds() - begin;
  ASSERT_THAT(result, IsOk());
  const auto form = ClosedFormOf(spec, kCost, kBytes);
  ASSERT_TRUE(form.has_value());
  EXPECT_NEAR(result->time_ns / form->time_ns, 1, 0.01);
  EXPECT_LT(elapsed, kSecondsMax);
  EXPECT_LT(PeakBytes(), kPeakBytesMax);
  testing::Test::RecordProperty("seconds", std::to_string(elapsed));
  testing::Test::RecordProperty("peak_bytes", std::to_string(PeakBytes()));
}

// The smaller one first: the peak is the process's.
TEST(SimulateFullTest, HalvingDoublingOf16384Ranks) {
  Check({.algorithm = Algorithm::kHalvingDoubling, .world_size = 16'384});
}

TEST(SimulateFullTest, RingOf4096Ranks) { Check({.world_size = 4'096}); }

}  // namespace
}  // namespace lockstep
