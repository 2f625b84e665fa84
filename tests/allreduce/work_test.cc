// What schedules send in all, against the simulator's count; and what sharing cores makes of it.
#include "allreduce/schedule/work.h"

#include <gtest/gtest.h>

#include <set>

#include "allreduce/schedule/choose.h"
#include "allreduce/schedule/simulate.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kKiB = 1024;
constexpr CostModel kAlone = {
    .latency_ns = 4'000, .overhead_ns = 3'000, .beta_ns_per_byte = 0.1, .gamma_ns_per_byte = 0.03};

TEST(WorkTest, IsWhatTheSimulatorCounts) {
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kPsExchange) continue;
    for (const int32_t n : {2, 3, 4, 6, 8}) {
      for (const int64_t bytes : {int64_t{0}, 48 * kKiB, 48 * 64 * kKiB}) {
        const ScheduleSpec spec{.algorithm = algorithm, .world_size = n};
        SimulationOptions options;
        options.bytes = bytes;
        options.tile_bytes = 64 * kKiB;
        const absl::StatusOr<Simulation> simulation = Simulate(spec, options);
        ASSERT_THAT(simulation, IsOk());
        const Work work = WorkOf(spec, bytes, options.tile_bytes);
        EXPECT_EQ(work.messages, simulation->messages) << NameOf(algorithm) << " " << n;
        const auto sent = static_cast<double>(simulation->sent_bytes);
        EXPECT_GE(work.bytes, 0.999 * sent) << NameOf(algorithm) << " " << n;
        EXPECT_LE(work.bytes, 1.501 * sent) << NameOf(algorithm) << " " << n;
      }
    }
  }
}

// Eight chunks: tiles of them lie apart.
TEST(WorkTest, MessagesThatAreCopiedByHandCountHalfAgain) {
  const ScheduleSpec spec{.algorithm = Algorithm::kHalvingDoubling, .world_size = 8};
  const ScheduleSpec ring{.algorithm = Algorithm::kRing, .world_size = 8};
  EXPECT_EQ(WorkOf(spec, 8 * kKiB, kKiB).bytes, WorkOf(ring, 8 * kKiB, kKiB).bytes);
  EXPECT_GT(WorkOf(spec, 16 * kKiB, kKiB).bytes, 1.3 * WorkOf(ring, 16 * kKiB, kKiB).bytes);
}

TEST(CrowdTest, IsSeenOnlyBeyondNoise) {
  const ScheduleSpec spec{.algorithm = Algorithm::kRecursiveDoubling, .world_size = 4};
  const double alone_ns = ClosedFormOf(spec, kAlone, 0)->time_ns;
  EXPECT_EQ(WithCrowd(kAlone, spec, {1.2 * alone_ns, 1e9, 100, 100}).crowd_message_ns, 0);
  const CostModel crowded = WithCrowd(kAlone, spec, {80'000, 80'000 + 8'000, 1'000, 1'000});
  EXPECT_DOUBLE_EQ(crowded.crowd_message_ns, 10'000);  // of 8 messages
  EXPECT_DOUBLE_EQ(crowded.crowd_ns_per_byte, 1);      // of 8 x 1000 bytes
  EXPECT_DOUBLE_EQ(CrowdNs(crowded, {.messages = 2, .bytes = 5}), 20'005);
  EXPECT_EQ(CrowdNs(kAlone, {.messages = 2, .bytes = 5}), 0);
}

// A small call over TCP with more ranks than cores, as measured: what counts is how often a core
// passes from rank to rank. Without the crowd a short path wins.
TEST(CrowdTest, FewMessagesWinWhereRanksShareCores) {
  CostModel crowded = kAlone;
  crowded.crowd_message_ns = 5'000;
  crowded.crowd_ns_per_byte = 0.2;
  for (const int32_t n : {4, 8}) {
    EXPECT_EQ(ChooseAlgorithm(n, 4, crowded).algorithm(), Algorithm::kStar) << n;
    EXPECT_NE(ChooseAlgorithm(n, 4, kAlone).algorithm(), Algorithm::kStar) << n;
    for (const Candidate& candidate : ChooseAlgorithm(n, 64 * kKiB, crowded).candidates) {
      const ScheduleSpec spec{.algorithm = candidate.algorithm, .world_size = n};
      EXPECT_EQ(candidate.time_ns,
                std::max(ClosedFormOf(spec, crowded, 64 * kKiB)->time_ns,
                         CrowdNs(crowded, WorkOf(spec, 64 * kKiB, kModelTileBytes))));
    }
  }
  EXPECT_EQ(ChooseAlgorithm(8, 16 * 1024 * kKiB, crowded, 128 * kKiB).algorithm(),
            Algorithm::kRing);
}

}  // namespace
}  // namespace lockstep
