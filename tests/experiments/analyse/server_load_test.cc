#include "experiments/analyse/server_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/clock.h"

namespace lockstep {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::SizeIs;
using testing::StartsWith;

constexpr int64_t kStartNs = 50 * kNsPerSecond;
constexpr int64_t kMs = 1'000'000;

PeerSpan Span(int32_t worker, int64_t start_ms, int64_t end_ms) {
  PeerSpan span;
  span.set_worker(worker);
  span.set_start_ns(kStartNs + start_ms * kMs);
  span.set_end_ns(kStartNs + end_ms * kMs);
  return span;
}

// Two pushes, whole at 500 and 1,500 ms, are applied from 1,500 to 1,750 ms; both replies are
// gone at 2,750 ms, and the process used 1.1 s of processor until then.
RunRecord OneUpdate() {
  RunRecord run;
  run.config.mutable_variant()->set_name("ps");
  run.config.mutable_variant()->mutable_ps();
  run.config.set_world_size(2);
  run.config.set_servers(1);
  run.workers.resize(2);
  for (MemberRecord& worker : run.workers) {
    worker.steps.emplace_back().set_start_ns(kStartNs);
    worker.steps.back().set_step(1);
  }
  Applied& applied = run.servers.emplace_back().applied.emplace_back();
  applied.set_step(1);
  applied.set_version(1);
  *applied.add_push() = Span(0, 0, 500);
  *applied.add_push() = Span(1, 500, 1'500);
  applied.set_apply_start_ns(kStartNs + 1'500 * kMs);
  applied.set_apply_ns(250 * kMs);
  *applied.add_reply() = Span(0, 1'750, 2'250);
  *applied.add_reply() = Span(1, 1'750, 2'750);
  applied.mutable_traffic()->set_received_bytes(2'000);
  applied.mutable_traffic()->set_sent_bytes(1'000);
  applied.set_replicate_ns(250 * kMs);
  applied.mutable_replication()->set_sent_bytes(300);
  applied.set_cpu_ns(1'100 * kMs);
  applied.set_staged_bytes(2'000);
  applied.set_duplicates(3);
  applied.add_rejected(1);
  return run;
}

TEST(ServerLoadTest, APushIsInOnePlaceAtATime) {
  const std::vector<ServerLoad> loads = ServerLoadOf(OneUpdate(), kNsPerSecond);
  ASSERT_THAT(loads, SizeIs(3));
  const auto at = [&](double ServerLoad::*part) {
    return std::vector<double>{loads[0].*part, loads[1].*part, loads[2].*part};
  };
  EXPECT_THAT(at(&ServerLoad::receiving), ElementsAre(DoubleEq(1.0), DoubleEq(0.5), 0));
  EXPECT_THAT(at(&ServerLoad::waiting), ElementsAre(DoubleEq(0.5), DoubleEq(0.5), 0));
  EXPECT_THAT(at(&ServerLoad::applying), ElementsAre(0, DoubleEq(0.25), 0));
  EXPECT_THAT(at(&ServerLoad::replicating), ElementsAre(0, DoubleEq(0.25), 0));
  EXPECT_THAT(at(&ServerLoad::sending), ElementsAre(0, DoubleEq(0.5), DoubleEq(1.0)));
  EXPECT_THAT(at(&ServerLoad::in_bytes), ElementsAre(DoubleEq(1'500), DoubleEq(500), 0));
  EXPECT_THAT(at(&ServerLoad::out_bytes), ElementsAre(0, DoubleEq(375), DoubleEq(625)));
  EXPECT_THAT(at(&ServerLoad::replication_bytes), ElementsAre(0, DoubleEq(300), 0));
  EXPECT_THAT(at(&ServerLoad::cpu),
              ElementsAre(DoubleNear(0.4, 1e-9), DoubleNear(0.4, 1e-9), DoubleNear(0.3, 1e-9)));
  EXPECT_EQ(loads[1].wait_ms, 500) << "mean of 1,000 and 0";
  EXPECT_EQ(loads[1].updates, 1);
  EXPECT_EQ(loads[1].pushes, 2);
  EXPECT_EQ(loads[1].staged_bytes, 2'000);
  EXPECT_EQ(loads[1].duplicates, 3);
  EXPECT_EQ(loads[1].rejected, 1);
  EXPECT_EQ(loads[0].updates, 0);
}

// SYNC's blocks, summed while the pushes came, were left out: next to no fold and optimizer.
TEST(ServerLoadTest, WhatIsAppliedEarlyIsApplied) {
  RunRecord run = OneUpdate();
  run.servers[0].applied[0].set_early_ns(300 * kMs);
  const std::vector<ServerLoad> loads = ServerLoadOf(run, kNsPerSecond);
  ASSERT_THAT(loads, SizeIs(3));
  EXPECT_DOUBLE_EQ(loads[0].applying, 0.2);
  EXPECT_DOUBLE_EQ(loads[1].applying, 0.1 + 0.25);
}

TEST(ServerLoadTest, TheFileHasARowAServerShardAndSecond) {
  RunRecord run = OneUpdate();
  run.servers[0].applied.push_back(run.servers[0].applied[0]);
  run.servers[0].applied[1].set_shard(1);
  const std::string csv = ServersToCsv({run});
  const std::vector<std::string> lines = absl::StrSplit(csv, "\r\n");
  ASSERT_THAT(lines, SizeIs(1 + 6 + 1));
  EXPECT_THAT(lines[0], StartsWith("variant,workers,servers,block,seed,server,shard,second,"));
  EXPECT_THAT(lines[2], StartsWith("ps,2,1,0,0,0,0,1,1,2,500,375,300,0.5,0.5,500,0.25,0.25,0.5,"));
  EXPECT_THAT(lines[4], StartsWith("ps,2,1,0,0,0,1,0,0,0,1500,"));
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    EXPECT_THAT(cells, SizeIs(line.empty() ? 1 : 23)) << line;
  }
}

TEST(ServerLoadTest, TheRunFileHasTheServersShardsTogether) {
  RunRecord run = OneUpdate();
  run.servers[0].applied.push_back(run.servers[0].applied[0]);
  run.servers[0].applied[1].set_shard(1);
  run.servers[0].applied[1].set_cpu_ns(0);
  VariantResult result;
  AggregateServerLoad({&run}, &result);
  ASSERT_EQ(result.server_seconds_size(), 1);
  const ServerSeconds& seconds = result.server_seconds(0);
  EXPECT_EQ(seconds.window_s(), 1);
  // The third second, in which the reply still leaves, is not whole.
  EXPECT_THAT(seconds.in_bytes(), ElementsAre(DoubleEq(3'000), DoubleEq(1'000)));
  EXPECT_THAT(seconds.out_bytes(), ElementsAre(0, DoubleEq(1'350)));
  EXPECT_THAT(seconds.wait_ms(), ElementsAre(0, DoubleEq(500)));
  EXPECT_THAT(seconds.staged_bytes(), ElementsAre(0, 2'000));
}

// Each report carries it, so a long run has wider windows.
TEST(ServerLoadTest, ALongRunHasWiderWindows) {
  RunRecord run = OneUpdate();
  run.servers[0].applied.push_back(run.servers[0].applied[0]);
  Applied& late = run.servers[0].applied[1];
  late.clear_push();
  late.clear_reply();
  late.set_apply_start_ns(kStartNs + 1'000 * kNsPerSecond);
  VariantResult result;
  AggregateServerLoad({&run}, &result);
  EXPECT_EQ(result.server_seconds(0).window_s(), 5);
  EXPECT_EQ(result.server_seconds(0).cpu_size(), 200);  // the last is not whole
  EXPECT_DOUBLE_EQ(result.server_seconds(0).cpu(0), 1.1 / 5 * (1 + 2.25 / 997.5));
}

TEST(ServerLoadTest, TimesOfADamagedFileMakeNoYearOfWindows) {
  RunRecord run = OneUpdate();
  run.servers[0].applied[0].set_apply_start_ns(INT64_MAX / 2);
  VariantResult result;
  AggregateServerLoad({&run}, &result);
  EXPECT_LE(result.server_seconds(0).cpu_size(), kSecondsShown);
  run.workers.clear();
  EXPECT_THAT(ServerLoadOf(run, kNsPerSecond), SizeIs(0));
}

}  // namespace
}  // namespace lockstep
