// Real servers and clients over loopback: every mode and order, any length, any number of workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/ps_server/cluster.h"

namespace lockstep {
namespace {

using absl::StatusCode;

struct Way {
  const char* name;
  PsMode mode;
  PsOrder order;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
constexpr Way kSyncRank = {"SyncRank", PsMode::kSync, PsOrder::kRank};
constexpr Way kSyncExact = {"SyncExact", PsMode::kSync, PsOrder::kExact};
constexpr Way kAsync = {"Async", PsMode::kAsync, PsOrder::kRank};

ClusterOptions OptionsOf(const Way& way, int workers, int32_t servers) {
  ClusterOptions options;
  options.workers = workers;
  options.servers = servers;
  options.mode = way.mode;
  options.order = way.order;
  return options;
}

// Connects, and fetches the start values, which are zero.
std::unique_ptr<PsClient> StartAtZero(Cluster* cluster, int rank) {
  auto client = cluster->Connect(rank);
  EXPECT_THAT(client, IsOk());
  if (!client.ok()) return nullptr;
  const std::vector<float> zero(static_cast<size_t>(cluster->count()), 0.0F);
  std::vector<float> parameters(zero.size(), 1.0F);
  if (rank == 0) {
    EXPECT_THAT((*client)->Init(zero), IsOk());
  }
  EXPECT_THAT((*client)->Pull(0, parameters), IsOk());
  EXPECT_TRUE(SameBits(parameters, zero));
  return *std::move(client);
}

class AnyLength : public testing::TestWithParam<std::tuple<Way, int>> {};

// Distinct whole numbers whose sums are exact in floats: not one element may be off, the last
// included. 2^20 + 3 elements of up to 8 workers stay below 2^24.
TEST_P(AnyLength, EveryElementIsExact) {
  const auto& [way, workers] = GetParam();
  const std::set<int64_t> lengths = {1,           2,           3,           7,
                                     workers - 1, workers + 0, workers + 1, (1 << 20) + 3};
  for (const int64_t length : lengths) {
    if (length == 0) continue;  // a model without parameters is refused: partition_test
    SCOPED_TRACE(absl::StrCat("length ", length));
    ClusterOptions options = OptionsOf(way, workers, length > 3'000 ? 3 : 1);
    options.tensors = {length};
    options.sgd = OptimizerOptions{.learning_rate = 1, .momentum = 0, .divisor = 1};
    Cluster cluster(options);
    std::vector<std::unique_ptr<PsClient>> clients(static_cast<size_t>(workers));
    std::vector<std::vector<float>> pulled(clients.size());
    std::vector<std::vector<float>> gradients(clients.size());
    cluster.RunWorkers([&](int rank) {
      const auto w = static_cast<size_t>(rank);
      gradients[w].resize(static_cast<size_t>(length));
      std::iota(gradients[w].begin(), gradients[w].end(), static_cast<float>(131 * rank + 1));
      pulled[w].resize(gradients[w].size());
      clients[w] = StartAtZero(&cluster, rank);
      ASSERT_NE(clients[w], nullptr);
      ASSERT_THAT(clients[w]->Push(1, 0, gradients[w]), IsOk());
      ASSERT_THAT(clients[w]->Pull(1, pulled[w]), IsOk());
    });
    const int64_t first = workers + 131 * workers * (workers - 1) / 2;
    std::vector<float> expected(static_cast<size_t>(length));
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = -static_cast<float>(first + workers * static_cast<int64_t>(i));
    }
    // Asynchronous workers have read what was there; now all of it is.
    if (way.mode == PsMode::kAsync) {
      ASSERT_THAT(clients[0]->Pull(1, pulled[0]), IsOk());
      pulled.resize(1);
    }
    for (const std::vector<float>& parameters : pulled) EXPECT_TRUE(SameBits(parameters, expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, AnyLength,
                         testing::Combine(testing::Values(kSyncRank, kSyncExact, kAsync),
                                          testing::Values(1, 2, 3, 5, 7, 8)),
                         [](const auto& row) {
                           return absl::StrCat(std::get<0>(row.param).name, "N",
                                               std::get<1>(row.param));
                         });

class EveryRound : public testing::TestWithParam<std::tuple<Way, int32_t>> {};

// Random data, many rounds: every rank has the reference's bits in each of them.
TEST_P(EveryRound, RanksHaveTheSameBits) {
  const auto& [way, servers] = GetParam();
  constexpr int64_t kRounds = 150;
  ClusterOptions options = OptionsOf(way, 3, servers);
  options.tensors = {1'200, 0, 40, 1'100};
  Cluster cluster(options);
  const auto reference = cluster.Reference(kRounds);
  std::vector<Traffic> traffic(3);
  cluster.RunWorkers([&](int rank) {
    Train(&cluster, rank, kRounds, reference, &traffic[static_cast<size_t>(rank)]);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, EveryRound,
                         testing::Combine(testing::Values(kSyncRank, kSyncExact),
                                          testing::Range(1, 4)),
                         [](const auto& row) {
                           return absl::StrCat(std::get<0>(row.param).name, "S",
                                               std::get<1>(row.param));
                         });

// Trains as an asynchronous worker does; returns what it pulled last.
std::vector<float> TrainAsync(Cluster* cluster, int rank, int64_t steps, PsClient* client) {
  const std::vector<float> start = StartValues(kSeed, cluster->count());
  std::vector<float> parameters(start.size());
  if (rank == 0) {
    EXPECT_THAT(client->Init(start), IsOk());
  }
  EXPECT_THAT(client->Pull(0, parameters), IsOk());
  std::vector<std::vector<float>> gradients(static_cast<size_t>(steps));
  for (int64_t step = 1; step <= steps; ++step) {
    std::vector<float>& own = gradients[static_cast<size_t>(step - 1)];
    own = Gradients(kSeed, rank, step, cluster->count());
    const auto whole = std::span<const float>(own);
    EXPECT_THAT(client->Push(step, 1'000, whole.subspan(1'000)), IsOk());
    if (step % 3 == 0) {  // a retry
      EXPECT_THAT(client->Push(step, 1'000, whole.subspan(1'000)), IsOk());
    }
    EXPECT_THAT(client->Push(step, 0, whole.first(1'000)), IsOk());
    EXPECT_THAT(client->Pull(step, parameters), IsOk());
  }
  return parameters;
}

class AsyncTraining : public testing::TestWithParam<std::tuple<int, int32_t>> {};

TEST_P(AsyncTraining, EveryUpdateIsAppliedOnceAndTheLedgerReplays) {
  const auto [workers, servers] = GetParam();
  constexpr int64_t kSteps = 20;
  Cluster cluster(OptionsOf(kAsync, workers, servers));
  std::vector<std::unique_ptr<PsClient>> clients(static_cast<size_t>(workers));
  for (int w = 0; w < workers; ++w) clients[static_cast<size_t>(w)] = *cluster.Connect(w);
  cluster.RunWorkers([&](int rank) {
    TrainAsync(&cluster, rank, kSteps, clients[static_cast<size_t>(rank)].get());
  });
  std::vector<float> last(static_cast<size_t>(cluster.count()));
  ASSERT_THAT(clients[0]->Pull(kSteps, last), IsOk());

  const auto updates = static_cast<size_t>(workers * kSteps);
  std::vector<UpdateServed> served =
      cluster.reports().Await(updates * static_cast<size_t>(servers));
  EXPECT_EQ(served.size(), updates * static_cast<size_t>(servers));
  std::sort(served.begin(), served.end(), [](const UpdateServed& a, const UpdateServed& b) {
    return std::tie(a.shard, a.update.version) < std::tie(b.shard, b.update.version);
  });
  const std::vector<ShardRange> ranges = *Partition(cluster.options().tensors, servers);
  int64_t duplicates = 0;
  for (int32_t k = 0; k < servers; ++k) {
    std::vector<std::pair<int32_t, int64_t>> ledger;
    for (const UpdateServed& one : served) {
      if (one.shard != k) continue;
      ledger.emplace_back(*one.update.worker, one.update.step);
      EXPECT_EQ(one.update.version, static_cast<int64_t>(ledger.size()));
      ASSERT_EQ(one.replies.size(), 1U);
      EXPECT_EQ(one.replies[0].worker, *one.update.worker);
      EXPECT_LE(one.update.pushes[0].end_ns, one.apply_start_ns);
      EXPECT_LE(one.apply_start_ns + one.apply_ns, one.replies[0].start_ns);
      EXPECT_LE(one.replies[0].start_ns, one.replies[0].end_ns);
      ASSERT_TRUE(one.update.staleness.has_value());
      EXPECT_EQ(one.update.staleness->cycle_ns.has_value(), one.update.step > 1);
      duplicates += one.duplicates;
    }
    const std::vector<float> replay =
        ReferenceReplay(kSeed, ledger, cluster.count(), cluster.sgd());
    const ShardRange& range = ranges[static_cast<size_t>(k)];
    EXPECT_TRUE(std::equal(replay.begin() + range.offset,
                           replay.begin() + range.offset + range.count,
                           last.begin() + range.offset))
        << "shard " << k;
  }
  EXPECT_GE(duplicates, workers * (kSteps / 3));
}

INSTANTIATE_TEST_SUITE_P(Clusters, AsyncTraining,
                         testing::Combine(testing::Values(1, 2, 4), testing::Values(1, 3)),
                         [](const auto& row) {
                           return absl::StrCat("N", std::get<0>(row.param), "S",
                                               std::get<1>(row.param));
                         });

TEST(AsyncTraining, CountedBytesFollowTheFormula) {
  constexpr int kWorkers = 3;
  constexpr int32_t kServers = 2;
  constexpr int64_t kSteps = 4;
  ClusterOptions options = OptionsOf(kAsync, kWorkers, kServers);
  options.tensors = {1 << 18};
  Cluster cluster(options);
  cluster.RunWorkers([&](int rank) {
    auto client = cluster.Connect(rank);
    ASSERT_THAT(client, IsOk());
    if (rank == 0) {
      ASSERT_THAT((*client)->MeasureLink(), IsOk());
    }
    const std::vector<float> gradients(static_cast<size_t>(cluster.count()), 1.0F);
    std::vector<float> parameters(gradients.size());
    if (rank == 0) {
      ASSERT_THAT((*client)->Init(gradients), IsOk());
    }
    ASSERT_THAT((*client)->Pull(0, parameters), IsOk());
    for (int64_t step = 1; step <= kSteps; ++step) {
      ASSERT_THAT((*client)->Push(step, 0, gradients), IsOk());
      ASSERT_THAT((*client)->Pull(step, parameters), IsOk());
    }
  });
  const double share_bytes = 4.0 * (1 << 18) / kServers;  // S / s: one worker's part of n S / s
  std::vector<Traffic> servers(kServers);
  for (const UpdateServed& served :
       cluster.reports().Await(static_cast<size_t>(kWorkers * kSteps) * kServers)) {
    servers[static_cast<size_t>(served.shard)] += served.traffic;
    EXPECT_NEAR(static_cast<double>(served.traffic.received_bytes) / share_bytes, 1.0, 0.01);
    EXPECT_NEAR(static_cast<double>(served.traffic.sent_bytes) / share_bytes, 1.0, 0.01);
  }
  for (size_t k = 0; k < servers.size(); ++k) {
    const double formula = kWorkers * share_bytes * kSteps;
    EXPECT_NEAR(static_cast<double>(servers[k].received_bytes) / formula, 1.0, 0.01);
    EXPECT_NEAR(static_cast<double>(servers[k].sent_bytes) / formula, 1.0, 0.01);
    EXPECT_EQ(cluster.service(k).unreported().sent_bytes, 0);
    EXPECT_EQ(cluster.service(k).unreported().received_bytes, 0);
  }
}

class OneAlone : public testing::TestWithParam<Way> {};

TEST_P(OneAlone, OneWorkerAndOneServerTrain) {
  Cluster cluster(OptionsOf(GetParam(), 1, 1));
  const auto reference = cluster.Reference(5);
  Traffic traffic;
  Train(&cluster, 0, 5, reference, &traffic);
  for (const UpdateServed& served : cluster.reports().Await(5)) {
    EXPECT_EQ(served.update.staleness.has_value(), GetParam().mode == PsMode::kAsync);
    if (!served.update.staleness.has_value()) continue;
    EXPECT_EQ(served.update.staleness->update, 0);
    EXPECT_EQ(served.update.staleness->clock, 0);
  }
}

TEST_P(OneAlone, EmptyTensorsAndEmptyPushesChangeNothing) {
  ClusterOptions options = OptionsOf(GetParam(), 1, 2);
  options.tensors = {0, 1'500, 0, 0, 600, 0};
  options.sgd = OptimizerOptions{.learning_rate = 1, .momentum = 0, .divisor = 1};
  Cluster cluster(options);
  const std::unique_ptr<PsClient> client = StartAtZero(&cluster, 0);
  ASSERT_NE(client, nullptr);
  const std::vector<float> gradients(2'100, -2.0F);
  std::vector<float> parameters(2'100);
  for (const int64_t offset : {0, 1'500, 2'100}) {
    EXPECT_THAT(client->Push(1, offset, {}), IsOk());
  }
  ASSERT_THAT(client->Push(1, 0, gradients), IsOk());
  EXPECT_THAT(client->Push(1, 2'100, {}), IsOk());
  ASSERT_THAT(client->Pull(1, parameters), IsOk());
  EXPECT_EQ(parameters, std::vector<float>(2'100, 2.0F));
}

INSTANTIATE_TEST_SUITE_P(Ways, OneAlone, testing::Values(kSyncRank, kSyncExact, kAsync),
                         [](const auto& row) { return row.param.name; });

TEST(MeasureLink, FitsWhatItMeasured) {
  ClusterOptions options;
  options.limits.chunk_bytes = 128 << 10;
  Cluster cluster(options);
  auto client = cluster.Connect(0);
  ASSERT_THAT(client, IsOk());
  const Traffic before = (*client)->traffic();
  const absl::StatusOr<LinkCost> cost = (*client)->MeasureLink();
  ASSERT_THAT(cost, IsOk());
  EXPECT_EQ(cost->link, "grpc");
  EXPECT_EQ(cost->large_bytes, 128 << 10);  // a chunk, because that is less than 256 KiB
  EXPECT_EQ(cost->samples, 20);
  EXPECT_GT(cost->alpha_ns, 0);
  EXPECT_GE(cost->beta_ns_per_byte, 0);
  const Traffic measured = (*client)->traffic() - before;
  EXPECT_EQ(measured.sent_messages, 50);
  EXPECT_EQ(measured.received_messages, 50);
  EXPECT_NEAR(static_cast<double>(measured.sent_bytes), 25.0 * (128 << 10), 50 * 64.0);
  EXPECT_NEAR(static_cast<double>(measured.received_bytes), 25.0 * (128 << 10), 50 * 64.0);

  Traffic traffic;
  client->reset();
  Train(&cluster, 0, 2, cluster.Reference(2), &traffic);
  cluster.reports().Await(2);
  EXPECT_GE(cluster.reports().set_up().received_bytes, measured.sent_bytes);
  EXPECT_EQ(cluster.service(0).unreported().received_bytes, 0);
}

TEST(MeasureLink, IsRefusedAfterTheFirstPush) {
  Cluster cluster(OptionsOf(kAsync, 1, 1));
  const std::unique_ptr<PsClient> client = StartAtZero(&cluster, 0);
  ASSERT_NE(client, nullptr);
  const std::vector<float> gradients(static_cast<size_t>(cluster.count()));
  ASSERT_THAT(client->Push(1, 0, gradients), IsOk());
  EXPECT_THAT(client->MeasureLink(),
              StatusIs(StatusCode::kFailedPrecondition, "worker 0, ping-pong: server 0 ("));
}

}  // namespace
}  // namespace lockstep
