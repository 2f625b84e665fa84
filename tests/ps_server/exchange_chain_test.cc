// Servers in chains: what is acknowledged is on all of them, and a later group goes on from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/ps_server/exchange_net.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

NetOptions Options(int32_t servers, int32_t workers = 2) {
  NetOptions options;
  options.servers = servers;
  options.workers = workers;
  options.rules.optimizer = {0.1F, 0.9F, static_cast<float>(workers)};
  return options;
}

// Steps [first, last], checked bit by bit at every worker.
void Train(ExchangeNet* net, int32_t workers, int64_t first, int64_t last) {
  const auto reference = net->Reference(last);
  for (int64_t step = first; step <= last; ++step) {
    net->Step(step);
    for (int32_t w = 0; w < workers; ++w) {
      ASSERT_TRUE(net->Answered(w)) << "worker " << w << ", step " << step;
      EXPECT_TRUE(SameBits(net->worker(w).parameters, reference[static_cast<size_t>(step)]))
          << "worker " << w << ", step " << step;
    }
  }
}

TEST(ExchangeChain, AServerHasSeveralShardsAndAWelcomeForEach) {
  ExchangeNet net(Options(2));
  // Server 0 heads both, as after a loss.
  net.Begin(1, {{{0}}, {{0}}});
  ASSERT_EQ(net.worker(1).welcome.size(), 2U);
  EXPECT_EQ(net.worker(1).stream.size(), 1U);
  EXPECT_FALSE(net.worker(1).welcome[1].initialized());
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 3);
  // Two shards, three steps.
  EXPECT_EQ(net.server(0).updates.size(), 6U);
  net.Connect(1);
  net.Run();
  EXPECT_TRUE(net.worker(1).welcome[1].initialized());
  EXPECT_EQ(net.worker(1).welcome[1].version(), 3);
  EXPECT_EQ(net.worker(1).welcome[1].step(), 3);
}

TEST(ExchangeChain, NothingIsToldBeforeTheTailHasIt) {
  ExchangeNet net(Options(2));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 2);
  net.Hold(0, 1);
  net.Step(3);
  EXPECT_EQ(net.worker(0).arrived, 0);
  net.Release();
  net.Run();
  EXPECT_TRUE(net.Answered(0));
  EXPECT_TRUE(SameBits(net.worker(1).parameters, net.Reference(3)[3]));
  // The head's event has what its copy cost: the sum once, in f32, and the tail's word.
  const UpdateServed& served = net.server(0).updates.back();
  EXPECT_EQ(served.update.step, 3);
  const int64_t shard_bytes = served.update.pushes.empty() ? 0 : 4 * net.elements(0);
  EXPECT_GT(served.replication.sent_bytes, shard_bytes);
  EXPECT_LT(served.replication.sent_bytes, shard_bytes * 11 / 10);
  EXPECT_EQ(served.replication.received_messages, 1);
  EXPECT_EQ(served.traffic.received_messages, 2 * 3);  // a push in two chunks and a pull
}

struct Chained {
  const char* name;
  int32_t replicas;
  bool aggregated;
  Dtype wire;
};
void PrintTo(const Chained& row, std::ostream* out) { *out << row.name; }
class Failover : public testing::TestWithParam<Chained> {};

TEST_P(Failover, ASurvivorGoesOnWithTheSameBitsAndAReplacementCatchesUp) {
  NetOptions options = Options(3);
  options.aggregated = GetParam().aggregated;
  options.rules.wire_dtype = GetParam().wire;
  ExchangeNet net(options);
  net.Begin(1, net.Chains(GetParam().replicas));
  net.Init(net.Reference(0)[0]);
  const bool exact = GetParam().wire == Dtype::kF32;
  for (int64_t step = 1; step <= 4; ++step) net.Step(step);
  if (exact) {
    EXPECT_TRUE(SameBits(net.worker(1).parameters, net.Reference(4)[4]));
  }
  // Worker 0 has pushed step 5 everywhere, worker 1 nowhere, when server 0 dies.
  net.Push(0, 5);
  net.Run();
  net.Kill(0);
  for (const int32_t s : {1, 2}) {
    const auto held = net.server(s).exchange->Leave(absl::AbortedError("server 0 is lost"));
    EXPECT_FALSE(held.empty());
    for (const HeldShard& shard : held) EXPECT_EQ(shard.version, 4);
  }
  net.Run();
  EXPECT_FALSE(net.worker(0).refusals.empty());
  std::vector<NetChain> chains = {{{1}}, {{1, 2}}, {{2}}};
  if (GetParam().replicas == 2) chains = {{{1, 2}}, {{1, 2}}, {{2, 1}}};
  net.Begin(2, chains);
  for (int32_t shard = 0; shard < 3; ++shard) EXPECT_EQ(net.worker(0).welcome[shard].step(), 4);
  net.Step(5);
  // The replacement takes its old places, behind the others.
  net.Replace(0);
  for (const int32_t s : {1, 2}) {
    net.server(s).exchange->Leave(absl::AbortedError("server 0 is back"));
  }
  net.Run();
  chains[0].joining = {0};
  chains[2].joining = {0};
  if (GetParam().replicas == 2) chains[1].joining = {0};
  net.Begin(3, chains);
  for (int64_t step = 6; step <= 8; ++step) net.Step(step);
  EXPECT_TRUE(net.Answered(0));
  if (exact) {
    EXPECT_TRUE(SameBits(net.worker(0).parameters, net.Reference(8)[8]));
  }
  size_t joined = 0;
  for (const int32_t s : {1, 2}) joined += net.server(s).joined.size();
  EXPECT_EQ(joined, GetParam().replicas == 2 ? 3U : 2U);
  // It may now be the only one: all that was acknowledged is on it.
  net.Kill(1);
  net.Kill(2);
  const auto held = net.server(0).exchange->Leave(absl::AbortedError("servers 1 and 2 are lost"));
  EXPECT_EQ(held.size(), joined);
  for (const HeldShard& shard : held) EXPECT_EQ(shard.version, 8);
}

INSTANTIATE_TEST_SUITE_P(Rows, Failover,
                         testing::Values(Chained{"One", 1, true, Dtype::kF32},
                                         Chained{"Two", 2, true, Dtype::kF32},
                                         Chained{"OneEachPush", 1, false, Dtype::kF32},
                                         Chained{"TwoEachPush", 2, false, Dtype::kF32},
                                         Chained{"Bf16", 1, true, Dtype::kBf16},
                                         Chained{"F16EachPush", 2, false, Dtype::kF16}),
                         [](const auto& row) { return row.param.name; });

TEST(ExchangeChain, ABrokenStreamIsOpenedAgainAndNothingIsLost) {
  ExchangeNet net(Options(2));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 2);
  net.Hold(0, 1);
  net.Step(3);
  net.Cut(0, 1);
  net.Release();
  net.Run();
  EXPECT_FALSE(net.Answered(0));
  net.Tick(20);
  EXPECT_TRUE(net.Answered(0));
  EXPECT_TRUE(SameBits(net.worker(0).parameters, net.Reference(3)[3]));
  Train(&net, 2, 4, 5);
  EXPECT_TRUE(net.server(0).broken.empty());
}

TEST(ExchangeChain, ASuccessorThatIsGoneEndsTheGroupWithinItsTime) {
  ExchangeNet net(Options(2));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 1);
  net.Kill(1);
  for (int64_t ms = 0; ms < 390; ms += 10) net.Tick(10);
  EXPECT_TRUE(net.server(0).broken.empty());
  net.Tick(30);
  ASSERT_EQ(net.server(0).broken.size(), 1U);
  EXPECT_THAT(net.server(0).broken[0],
              StatusIs(StatusCode::kUnavailable, "server 0 can't replicate in epoch 1: server 1"));
  EXPECT_EQ(BlamedBy(net.server(0).broken[0]), std::vector<std::string>{"server 1"});
}

TEST(ExchangeChain, ASuccessorThatConfirmsNothingEndsTheGroupWithinItsTime) {
  ExchangeNet net(Options(2));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 1);
  net.Hold(0, 1);
  net.Step(2);
  net.Tick(599);
  EXPECT_TRUE(net.server(0).broken.empty());
  net.Tick(1);
  ASSERT_EQ(net.server(0).broken.size(), 1U);
  EXPECT_THAT(net.server(0).broken[0],
              StatusIs(StatusCode::kDeadlineExceeded, "server 1 has confirmed version 1 of 2"));
}

TEST(ExchangeChain, AHeadThatWasReplacedAcknowledgesNothing) {
  ExchangeNet net(Options(3));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 1);
  // Server 0 is cut off: it does not learn of epoch 2, in which server 1 has its shard.
  net.Hold(0, 1);
  net.Hold(0, 2);
  net.Step(2);
  EXPECT_FALSE(net.Answered(0));
  for (const int32_t s : {1, 2}) {
    ASSERT_THAT(net.server(s).exchange->Configure(net.ConfigOf(s, 2, {{{1}}, {{1, 2}}, {{2}}})),
                IsOk());
  }
  net.Release();
  net.Run();
  for (int i = 0; i < 3; ++i) net.Tick(10);
  EXPECT_FALSE(net.Answered(0));
  EXPECT_EQ(net.worker(0).version[0], 1);
  ASSERT_EQ(net.server(0).broken.size(), 1U);
  EXPECT_THAT(net.server(0).broken[0], StatusIs(StatusCode::kAborted, "server 1 refused"));
}

TEST(ExchangeChain, ALaterGroupsHelloWaitsAndAnEarlierOnesIsRefused) {
  ExchangeNet net(Options(2));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 1);
  // The workers hear of epoch 2 before server 1 does.
  net.Enter(2, net.Chains(1));
  ASSERT_THAT(net.server(0).exchange->Configure(net.ConfigOf(0, 2, net.Chains(1))), IsOk());
  for (const int32_t w : {0, 1}) net.Connect(w);
  net.Run();
  EXPECT_EQ(net.worker(0).welcome.count(0), 1U);
  EXPECT_EQ(net.worker(0).welcome.count(1), 0U);
  ASSERT_THAT(net.server(1).exchange->Configure(net.ConfigOf(1, 2, net.Chains(1))), IsOk());
  net.Run();
  EXPECT_EQ(net.worker(0).welcome.count(1), 1U);
  Train(&net, 2, 2, 3);
  net.Enter(1, net.Chains(1));
  net.worker(0).refusals.clear();
  net.Connect(0);
  net.Run();
  ASSERT_EQ(net.worker(0).refusals.size(), 2U);
  EXPECT_THAT(net.worker(0).refusals[0], StatusIs(StatusCode::kFailedPrecondition,
                                                  "worker 0 is in epoch 1, server 0 in epoch 2"));
}

TEST(ExchangeChain, ARecoveryIsReportedWithItsTimes) {
  ExchangeNet net(Options(3));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 2);
  net.clock().AdvanceMs(100);
  net.Kill(0);
  for (const int32_t s : {1, 2}) {
    net.server(s).exchange->Leave(absl::AbortedError("server 0 is lost"));
  }
  // What the group had queued still goes out, and is nobody's service.
  PsFrame late;
  late.set_kind(PARAMETERS);
  late.set_shard(1);
  late.set_epoch(1);
  late.set_step(2);
  constexpr int64_t kNoStream = -1;
  net.server(1).exchange->Sending(late, /*bytes=*/100, /*complete=*/false, kNoStream);
  net.Run();
  net.clock().AdvanceMs(50);
  net.Replace(0);
  net.Begin(2, {{{1}, {0}}, {{1, 2}}, {{2}, {0}}});
  net.clock().AdvanceMs(7);
  Train(&net, 2, 3, 3);
  ASSERT_EQ(net.server(1).recoveries.size(), 1U);
  const ServerRecovery& survivor = net.server(1).recoveries[0];
  EXPECT_EQ(survivor.epoch, 2);
  EXPECT_THAT(survivor.cause, StatusIs(StatusCode::kAborted, "server 0 is lost"));
  EXPECT_EQ(survivor.broken_ns, 1'100 * kNsPerMs);
  EXPECT_EQ(survivor.serving_ns, 1'157 * kNsPerMs);
  EXPECT_EQ(survivor.exposed_ns, 50 * kNsPerMs);
  EXPECT_GT(survivor.traffic.sent_bytes, 0);
  ASSERT_EQ(net.server(0).recoveries.size(), 1U);
  EXPECT_EQ(net.server(0).recoveries[0].broken_ns, 0);
  EXPECT_GT(net.server(0).recoveries[0].traffic.received_bytes, 0);
}

TEST(ExchangeChain, ASnapshotIsTakenAtEachCutAndAGroupGoesBackToIt) {
  NetOptions options = Options(2);
  options.snapshot_every = 3;
  ExchangeNet net(options);
  net.Begin(1, net.Chains(0));
  net.Init(net.Reference(0)[0]);
  Train(&net, 2, 1, 7);
  for (const int32_t s : {0, 1}) {
    std::vector<int64_t> steps;
    for (const auto& [step, state] : net.server(s).cuts) steps.push_back(step);
    EXPECT_THAT(steps, ElementsAre(0, 3, 6));
  }
  const auto cuts = std::vector{net.server(0).cuts, net.server(1).cuts};
  net.Kill(1);
  net.Replace(1);
  net.server(0).exchange->Leave(absl::AbortedError("server 1 is lost"));
  net.Run();
  net.Begin(2, net.Chains(0), [&](int32_t s, PsServerConfig* config) {
    config->restore = true;
    config->restored[s] = {*cuts[static_cast<size_t>(s)].at(6)};
  });
  for (int32_t shard = 0; shard < 2; ++shard) EXPECT_EQ(net.worker(0).welcome[shard].step(), 6);
  Train(&net, 2, 7, 9);
  EXPECT_EQ(net.server(0).recoveries[0].lost_versions, 1);
  EXPECT_EQ(net.server(0).cuts.count(9), 1U);
}

TEST(ExchangeChain, PartsOfAnotherNumberOfServersAreCutAnew) {
  NetOptions options = Options(3);
  options.snapshot_every = 2;
  ExchangeNet three(options);
  three.Begin(1, three.Chains(0));
  three.Init(three.Reference(0)[0]);
  Train(&three, 2, 1, 2);
  std::vector<ShardState> parts;
  for (int32_t s = 0; s < 3; ++s) parts.push_back(*three.server(s).cuts.at(2));
  options.servers = 2;
  ExchangeNet two(options);
  two.Begin(1, two.Chains(0),
            [&](int32_t s, PsServerConfig* config) { config->restored[s] = parts; });
  EXPECT_EQ(two.worker(0).welcome[1].step(), 2);
  Train(&two, 2, 3, 5);
}

TEST(ExchangeChain, CrashPointsComeInTheirOrder) {
  ExchangeNet net(Options(2));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  net.server(0).points.clear();
  net.Step(1);
  const auto& points = net.server(0).points;
  std::vector<int> first;  // where each is met first
  for (const CrashPoint point :
       {CrashPoint::kBeforeReceive, CrashPoint::kHalfReceived, CrashPoint::kReceivedNotApplied,
        CrashPoint::kAppliedNotReplicated, CrashPoint::kReplicatedNotAcknowledged,
        CrashPoint::kDuringReply, CrashPoint::kAcknowledged}) {
    const auto found = std::find(points.begin(), points.end(), std::pair(point, int64_t{1}));
    ASSERT_NE(found, points.end()) << static_cast<int>(point);
    first.push_back(static_cast<int>(found - points.begin()));
  }
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
}

TEST(ExchangeChain, AStrangerInTheChainIsRefused) {
  ExchangeNet net(Options(3));
  net.Begin(1, net.Chains(1));
  net.Init(net.Reference(0)[0]);
  PsFrame hello;
  hello.set_kind(HELLO);
  hello.set_from_server(true);
  hello.set_worker(1);
  hello.set_shard(0);
  hello.set_epoch(1);
  const std::string bytes = hello.SerializeAsString();
  const std::vector<Bytes> slices = {std::as_bytes(std::span(bytes))};
  Exchange* exchange = net.server(1).exchange.get();
  const int64_t refused = exchange->counters().refused_streams;
  exchange->Opened(777, "");
  exchange->Received(777, slices);
  EXPECT_EQ(exchange->counters().refused_streams, refused + 1);
  net.Run();
  Train(&net, 2, 1, 2);
}

}  // namespace
}  // namespace lockstep
