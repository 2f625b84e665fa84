// The clock of the simulator: what a message costs, who waits for whom, what a slot and a tile are.
#include "allreduce/schedule/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/load.h"
#include "allreduce/schedule/ping_pong.h"
#include "allreduce/schedule/ps_exchange.h"
#include "allreduce/schedule/ring.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr CostModel kPlain = {.latency_ns = 100, .overhead_ns = 10, .beta_ns_per_byte = 1};
constexpr double kMessageNs = 100 + 10 + 40;  // of 10 elements

Schedule World(int32_t ranks, int32_t chunks, std::vector<std::vector<Lane>> lanes) {
  Schedule schedule;
  schedule.world_size = ranks;
  schedule.contributors = ranks;
  schedule.chunks = chunks;
  schedule.ranks = std::move(lanes);
  return schedule;
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  EXPECT_THAT(value, IsOk());
  return value.ok() ? *std::move(value) : T{};
}

Simulation Simulated(const Schedule& schedule, const SimulationOptions& options) {
  return Must(Simulate(schedule, options));
}

Move SendTo(int32_t peer, int32_t chunk = 0) { return {.send_to = peer, .in = chunk}; }
Move Keep(int32_t peer, int32_t chunk = 0) { return {.recv_from = peer, .out = chunk}; }
Move Add(int32_t peer, int32_t chunk = 0) { return {.recv_from = peer, .in = chunk, .out = chunk}; }

TEST(SimulateTest, AMessageTakesAlphaAndItsBytes) {
  const Schedule schedule = World(2, 1, {{{0, {SendTo(1)}}}, {{0, {Keep(0)}}}});
  const Simulation result = Simulated(schedule, {.cost = kPlain, .bytes = 40});
  EXPECT_DOUBLE_EQ(result.time_ns, kMessageNs);
  EXPECT_EQ(result.messages, 1);
  EXPECT_EQ(result.sent_bytes, 40);
  EXPECT_EQ(result.sent_bytes_max, 40);
  EXPECT_EQ(result.received_bytes_max, 40);
  EXPECT_EQ(result.chain, 1);
}

TEST(SimulateTest, PortsAreFullDuplex) {
  const Schedule schedule =
      World(2, 2, {{{0, {SendTo(1, 0), Keep(1, 1)}}}, {{0, {SendTo(0, 1), Keep(0, 0)}}}});
  EXPECT_DOUBLE_EQ(Simulated(schedule, {.cost = kPlain, .bytes = 80}).time_ns, kMessageNs);
}

TEST(SimulateTest, ASenderSendsOneAfterTheOtherAndLatenciesOverlap) {
  const Schedule schedule =
      World(3, 1, {{{0, {SendTo(1), SendTo(2)}}}, {{0, {Keep(0)}}}, {{0, {Keep(0)}}}});
  EXPECT_DOUBLE_EQ(Simulated(schedule, {.cost = kPlain, .bytes = 40}).time_ns, kMessageNs + 50);
}

TEST(SimulateTest, AReceiverTakesOneAfterTheOther) {
  const Schedule schedule =
      World(3, 1, {{{0, {Add(1), Add(2)}}}, {{0, {SendTo(0)}}}, {{0, {SendTo(0)}}}});
  EXPECT_DOUBLE_EQ(Simulated(schedule, {.cost = kPlain, .bytes = 40}).time_ns, kMessageNs + 50);
}

// A port that was booked ahead for a message that leaves late made one that is there early wait.
TEST(SimulateTest, WhoIsAtThePortFirstIsServedFirst) {
  // Rank 1's message to 0 queues behind a long one to 3; rank 2's, of which the simulator hears
  // later, is at rank 0 long before it.
  const Schedule schedule = World(4, 12,
                                  {{{0, {Keep(2, 10), Keep(1, 11)}}},
                                   {{0, {{.send_to = 3, .in = 0, .count = 10}, SendTo(0, 11)}}},
                                   {{0, {SendTo(0, 10)}}},
                                   {{0, {{.recv_from = 1, .out = 0, .count = 10}}}}});
  EXPECT_DOUBLE_EQ(Simulated(schedule, {.cost = kPlain, .bytes = 480}).time_ns,
                   10 + 400 + kMessageNs);
}

TEST(SimulateTest, AdditionsOfARankAreMadeOneAfterTheOther) {
  CostModel cost = kPlain;
  cost.gamma_ns_per_byte = 5;
  const Schedule schedule = World(
      3, 2, {{{0, {Add(1, 0)}}, {1, {Add(2, 1)}}}, {{0, {SendTo(0, 0)}}}, {{1, {SendTo(0, 1)}}}});
  // The second message comes while the first is added, and then waits for the adder.
  EXPECT_DOUBLE_EQ(Simulated(schedule, {.cost = cost, .bytes = 80}).time_ns,
                   kMessageNs + 200 + 200);
}

TEST(SimulateTest, ACopyCostsNothingAndAFoldTwoAdditions) {
  CostModel cost = kPlain;
  cost.gamma_ns_per_byte = 5;
  const Schedule copy = World(2, 1, {{{0, {SendTo(1)}}}, {{0, {Keep(0)}}}});
  EXPECT_DOUBLE_EQ(Simulated(copy, {.cost = cost, .bytes = 40}).time_ns, kMessageNs);
  Schedule fold = World(2, 1, {{{0, {SendTo(1)}}}, {{0, {}}}});
  fold.scratch = 1;
  fold.ranks[1][0].moves = {{.in = 0, .out = 1}, {.recv_from = 0, .in = 1, .out = 0, .fold = true}};
  EXPECT_DOUBLE_EQ(Simulated(fold, {.cost = cost, .bytes = 40}).time_ns, kMessageNs + 2 * 200);
}

TEST(SimulateTest, ASlotIsFreeWhenTheReceiverHasTakenTheMessage) {
  Schedule schedule = World(2, 4, {{{0, {}}}, {{0, {}}}});
  for (int32_t chunk = 0; chunk < 4; ++chunk) {
    schedule.ranks[0][0].moves.push_back(SendTo(1, chunk));
    schedule.ranks[1][0].moves.push_back(Keep(0, chunk));
  }
  const SimulationOptions options{.cost = kPlain, .bytes = 160};
  schedule.slots = 1;
  EXPECT_DOUBLE_EQ(Simulated(schedule, options).time_ns, 4 * kMessageNs);
  schedule.slots = 2;
  EXPECT_DOUBLE_EQ(Simulated(schedule, options).time_ns, 2 * kMessageNs + 50);
  schedule.slots = 4;
  EXPECT_DOUBLE_EQ(Simulated(schedule, options).time_ns, kMessageNs + 3 * 50);
}

TEST(SimulateTest, TheProgramRunsOnceForEachTile) {
  const Schedule schedule = Must(MakePingPong({}));
  SimulationOptions options{.cost = kPlain, .bytes = 400};
  EXPECT_DOUBLE_EQ(Simulated(schedule, options).time_ns, 2 * (110 + 400));
  options.tile_bytes = 150;  // 37 elements: tiles of 148, 148 and 104 bytes
  const Simulation tiled = Simulated(schedule, options);
  EXPECT_DOUBLE_EQ(tiled.time_ns, 3 * 2 * 110 + 2 * 400);
  EXPECT_EQ(tiled.messages, 6);
  EXPECT_EQ(tiled.sent_bytes, 800);
}

TEST(SimulateTest, AWaitIsForTheSameTile) {
  // Lane 1 answers what lane 0 has got, tile by tile; both ways are under way at once.
  const Schedule schedule =
      World(2, 1,
            {{{0, {SendTo(1)}}, {0, {Keep(1)}}},
             {{0, {Keep(0)}}, {0, {{.send_to = 0, .in = 0, .wait_lane = 0, .wait_move = 0}}}}});
  SimulationOptions options{.cost = {.beta_ns_per_byte = 1}, .bytes = 400};
  EXPECT_DOUBLE_EQ(Simulated(schedule, options).time_ns, 800);
  options.tile_bytes = 40;
  EXPECT_DOUBLE_EQ(Simulated(schedule, options).time_ns, 440);
  EXPECT_EQ(Simulated(schedule, options).chain, 2);
}

TEST(SimulateTest, AnEmptyCallStillSendsItsMessages) {
  const Simulation ring = Must(Simulate(ScheduleSpec{.world_size = 5}, {.cost = kPlain}));
  EXPECT_EQ(ring.messages, 40);
  EXPECT_EQ(ring.sent_bytes, 0);
  EXPECT_DOUBLE_EQ(ring.time_ns, 8 * 110);
}

// Every worker that begins at server 0 makes the servers wait for each other.
TEST(SimulateTest, TheOrderOfPushesDecidesWhatServersCost) {
  constexpr int32_t kWorkers = 8;
  const PsExchangeSpec spec{.workers = kWorkers, .servers = kWorkers};
  const Schedule turned = Must(MakePsExchange(spec));
  Schedule same = turned;
  for (int32_t worker = 0; worker < kWorkers; ++worker) {
    for (Lane& lane : same.ranks[static_cast<size_t>(worker)]) {
      const auto by_server = [](const Move& a, const Move& b) {
        return std::max(a.send_to, a.recv_from) < std::max(b.send_to, b.recv_from);
      };
      std::sort(lane.moves.begin(), lane.moves.end(), by_server);
    }
  }
  const SimulationOptions options{.cost = {.latency_ns = 5, .beta_ns_per_byte = 1},
                                  .bytes = int64_t{4000} * kWorkers};
  const double formula_ns = 2 * (kWorkers * 4000 + 5);
  EXPECT_DOUBLE_EQ(Simulated(turned, options).time_ns, formula_ns);
  EXPECT_GT(Simulated(same, options).time_ns, 1.4 * formula_ns);
}

// THEORY C.3: with many tiles a split takes the time of the bytes on its links, which are all
// alike.
TEST(SimulateTest, SplitServersReachTheTimeOfTheTheory) {
  struct Row {
    int32_t workers;
    int32_t servers;
    double time;  // of S * beta
  };
  constexpr int32_t kTiles = 64;
  constexpr int64_t kTileBytes = 4000;
  for (const Row& row : {Row{4, 2, 1.200}, Row{8, 2, 1.474}, Row{8, 4, 1.273}}) {
    ScheduleSpec spec{.algorithm = Algorithm::kPsExchange,
                      .world_size = row.workers + row.servers,
                      .servers = row.servers,
                      .placement = Placement::kSplit};
    const int64_t bytes = kTiles * kTileBytes * Must(MakeSchedule(spec)).chunks;
    const auto time = [&](int64_t tile_bytes) {
      return Must(Simulate(
                      spec,
                      {.cost = {.beta_ns_per_byte = 1}, .bytes = bytes, .tile_bytes = tile_bytes}))
                 .time_ns /
             static_cast<double>(bytes);
    };
    const double split = time(kTileBytes);
    EXPECT_NEAR(split, row.time, 0.05 * row.time) << row.workers << ", " << row.servers;
    spec.placement = Placement::kSpare;
    EXPECT_LT(split, time(bytes / row.servers / kTiles)) << row.workers << ", " << row.servers;
  }
}

TEST(SimulateTest, AScheduleThatStandsStillIsAnError) {
  Schedule ring = Must(MakeRing({.world_size = 3}));
  ring.slots = 1;
  EXPECT_THAT(Simulate(ring, {.cost = kPlain, .bytes = 120}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "stands still with 1 slots: rank 0 lane 0 waits in move"));
  const Schedule deaf = World(2, 1, {{{0, {Keep(1)}}}, {{0, {Keep(0)}}}});
  EXPECT_THAT(Simulate(deaf, {.cost = kPlain, .bytes = 40}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "rank 0 has not begun"));
}

TEST(SimulateTest, SaysWhatIsWrongWithItsInputs) {
  const ScheduleSpec ring{.world_size = 3};
  const auto invalid = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, what);
  };
  EXPECT_THAT(Simulate(ring, {.cost = {}, .bytes = -1}), invalid("bytes -1 must be at least 0"));
  EXPECT_THAT(Simulate(ring, {.cost = {}, .tile_bytes = 0}), invalid("tile_bytes 0"));
  EXPECT_THAT(Simulate(ring, {.cost = {.latency_ns = -3}}), invalid("a cost of -3"));
  EXPECT_THAT(Simulate(ScheduleSpec{.world_size = 0}, {}), invalid("world_size 0"));
}

struct SpecCase {
  ScheduleSpec spec;
  int32_t chain = 0;
};
void PrintTo(const SpecCase& param, std::ostream* out) {
  *out << NameOf(param.spec.algorithm) << " " << NameOf(param.spec.collective) << " n"
       << param.spec.world_size;
}

class SimulateSpecTest : public testing::TestWithParam<SpecCase> {};

TEST_P(SimulateSpecTest, CountsWhatTheScheduleMoves) {
  const ScheduleSpec spec = GetParam().spec;
  const SimulationOptions options{.cost = kPlain, .bytes = 33'600};
  const Simulation result = Must(Simulate(spec, options));
  EXPECT_EQ(result.chain, GetParam().chain);
  const std::vector<RankLoad> loads = Must(LoadsOf(spec));
  int64_t messages = 0;
  double sent = 0;
  double sent_max = 0;
  for (const RankLoad& load : loads) {
    messages += load.sent_messages;
    sent += load.sent;
    sent_max = std::max(sent_max, load.sent);
  }
  const double bytes = static_cast<double>(options.bytes);
  EXPECT_EQ(result.messages, messages);
  EXPECT_NEAR(static_cast<double>(result.sent_bytes), sent * bytes, 1);
  EXPECT_NEAR(static_cast<double>(result.sent_bytes_max), sent_max * bytes, 1);
}

TEST_P(SimulateSpecTest, GivesTheSameEachTimeAndFromTheWholeSchedule) {
  const ScheduleSpec spec = GetParam().spec;
  const SimulationOptions options{
      .cost = {.latency_ns = 70, .overhead_ns = 3, .beta_ns_per_byte = .3, .gamma_ns_per_byte = .1},
      .bytes = 33'332,
      .tile_bytes = 1'000};
  const Simulation first = Must(Simulate(spec, options));
  const Simulation second = Must(Simulate(spec, options));
  const Schedule schedule = Must(MakeSchedule(spec));
  const Simulation whole = Simulated(schedule, options);
  for (const Simulation& other : {second, whole}) {
    EXPECT_EQ(first.time_ns, other.time_ns);
    EXPECT_EQ(first.messages, other.messages);
    EXPECT_EQ(first.chain, other.chain);
    EXPECT_EQ(first.sent_bytes_max, other.sent_bytes_max);
    EXPECT_EQ(first.received_bytes_max, other.received_bytes_max);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, SimulateSpecTest,
    testing::Values(
        SpecCase{{.algorithm = Algorithm::kRing, .world_size = 7}, 12},
        SpecCase{{.algorithm = Algorithm::kRing, .world_size = 4, .channels = 3}, 6},
        SpecCase{{.algorithm = Algorithm::kNaive, .world_size = 6}, 1},
        SpecCase{{.algorithm = Algorithm::kTree, .world_size = 8}, 6},
        SpecCase{{.algorithm = Algorithm::kStar, .world_size = 5}, 2},
        SpecCase{{.algorithm = Algorithm::kDoubleTree, .world_size = 8}, 6},
        SpecCase{{.algorithm = Algorithm::kHalvingDoubling, .world_size = 8}, 6},
        SpecCase{{.algorithm = Algorithm::kRecursiveDoubling, .world_size = 8}, 3},
        SpecCase{{.algorithm = Algorithm::kDirect, .world_size = 6}, 2},
        SpecCase{{.algorithm = Algorithm::kHierarchical, .world_size = 12}, 2 * 2 + 2 * 3},
        SpecCase{{.algorithm = Algorithm::kPsExchange, .world_size = 7, .servers = 3}, 2},
        SpecCase{{.algorithm = Algorithm::kPsExchange,
                  .world_size = 6,
                  .servers = 2,
                  .placement = Placement::kSplit},
                 2},
        SpecCase{{.collective = Collective::kReduce,
                  .algorithm = Algorithm::kTree,
                  .world_size = 7,
                  .root = 3},
                 2},
        SpecCase{{.collective = Collective::kBroadcast,
                  .algorithm = Algorithm::kRing,
                  .world_size = 6,
                  .root = 2},
                 5},
        SpecCase{{.collective = Collective::kReduceScatter,
                  .algorithm = Algorithm::kRing,
                  .world_size = 6},
                 5},
        SpecCase{{.collective = Collective::kAllGather,
                  .algorithm = Algorithm::kDirect,
                  .world_size = 6},
                 1},
        SpecCase{{.collective = Collective::kBarrier,
                  .algorithm = Algorithm::kRecursiveDoubling,
                  .world_size = 6},
                 3}),
    [](const testing::TestParamInfo<SpecCase>& test) {
      const ScheduleSpec& spec = test.param.spec;
      return absl::StrCat(NameOf(spec.algorithm), "_", NameOf(spec.collective), "_",
                          spec.world_size, "_", spec.channels);
    });

}  // namespace
}  // namespace lockstep
