// Rows of a table over real servers: every row comes back, each server has its own, and a push that
// comes again is not applied again.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/ps_server/cluster.h"

namespace lockstep {
namespace {

constexpr int64_t kRow = 64;           // elements
constexpr int64_t kRowsOfShard = 160;  // ten blocks
constexpr int32_t kServers = 3;
constexpr int kWorkers = 2;
constexpr int64_t kKeys = 100;
constexpr int64_t kSteps = 3;

// 50 rows of each server but `idle`, the first and the last that it has among them.
std::vector<int64_t> Keys(int32_t idle) {
  std::set<int64_t> keys;
  for (int32_t k = 0; k < kServers; ++k) {
    if (k == idle) continue;
    const int64_t first = k * kRowsOfShard;
    for (int64_t i = 0; i < kKeys / 2 - 1; ++i) keys.insert(first + 3 * i);
    keys.insert(first + kRowsOfShard - 1);
  }
  return {keys.begin(), keys.end()};
}

// Of one element of a row, pushed by a worker in each step; a sum of them is exact.
float Gradient(int rank, int64_t row, int64_t element) {
  return static_cast<float>((rank + 1) * (row + 1)) + static_cast<float>(element) / 64;
}

std::vector<float> Gradients(int rank, const std::vector<int64_t>& keys) {
  std::vector<float> gradients;
  for (const int64_t row : keys) {
    for (int64_t e = 0; e < kRow; ++e) gradients.push_back(Gradient(rank, row, e));
  }
  return gradients;
}

// After `steps` of every worker.
float Expected(int64_t steps, int64_t row, int64_t element) {
  float sum = 0;
  for (int rank = 0; rank < kWorkers; ++rank) sum += Gradient(rank, row, element);
  return -static_cast<float>(steps) * sum;
}

class RowsTest : public testing::TestWithParam<std::tuple<PsMode, int32_t, int64_t>> {
 protected:
  static ClusterOptions Options() {
    ClusterOptions options;
    options.workers = kWorkers;
    options.servers = kServers;
    options.tensors = {kServers * kRowsOfShard * kRow};
    options.mode = std::get<0>(GetParam());
    options.sgd = OptimizerOptions{.learning_rate = 1, .momentum = 0, .divisor = 1};
    options.limits.chunk_bytes = std::get<2>(GetParam());
    return options;
  }
  absl::StatusOr<std::unique_ptr<PsClient>> Connect(int rank, int64_t incarnation) {
    PsClientOptions client = cluster_.Client(rank);
    client.incarnation = incarnation;
    client.layout.row_elements = {kRow};
    return PsClient::Connect(client, cluster_.clock(), cluster_.abort());
  }
  int64_t Counted(int64_t PsCounters::*counter, int32_t server) {
    return cluster_.service(static_cast<size_t>(server)).counters().*counter;
  }

  Cluster cluster_{Options()};
};

TEST_P(RowsTest, AllComeBackFromTheirServersAndNoneIsAppliedTwice) {
  const int32_t idle = std::get<1>(GetParam());
  const std::vector<int64_t> keys = Keys(idle);
  ASSERT_EQ(static_cast<int64_t>(keys.size()), kKeys);
  std::vector<std::unique_ptr<PsClient>> clients(kWorkers);
  std::vector<std::vector<float>> pulled(kWorkers, std::vector<float>(keys.size() * kRow));
  std::vector<std::vector<float>> gradients(kWorkers);
  const std::vector<float> zero(static_cast<size_t>(cluster_.count()));
  cluster_.RunWorkers([&](int rank) {
    const auto w = static_cast<size_t>(rank);
    gradients[w] = Gradients(rank, keys);
    auto client = Connect(rank, 1);
    ASSERT_THAT(client, IsOk());
    clients[w] = *std::move(client);
    if (rank == 0) {
      ASSERT_THAT(clients[w]->Init(zero), IsOk());
    }
    ASSERT_THAT(clients[w]->PullRows(0, 0, keys, pulled[w]), IsOk());
    EXPECT_EQ(pulled[w], std::vector<float>(keys.size() * kRow));
    for (int64_t step = 1; step <= kSteps; ++step) {
      ASSERT_THAT(clients[w]->PushRows(step, 0, keys, gradients[w]), IsOk());
      if (rank == 1) {
        ASSERT_THAT(clients[w]->PushRows(step, 0, keys, gradients[w]), IsOk());
      }
      ASSERT_THAT(clients[w]->PullRows(step, 0, keys, pulled[w]), IsOk());
    }
  });
  // Another process in the worker's place: what is applied stays applied once.
  clients[0].reset();
  auto again = Connect(0, 2);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->resume_step(), kSteps);
  ASSERT_THAT((*again)->PushRows(kSteps, 0, keys, gradients[0]), IsOk());
  ASSERT_THAT((*again)->PullRows(kSteps, 0, keys, pulled[0]), IsOk());
  for (size_t i = 0; i < keys.size(); ++i) {
    for (int64_t e = 0; e < kRow; ++e) {
      ASSERT_EQ(pulled[0][i * kRow + static_cast<size_t>(e)], Expected(kSteps, keys[i], e))
          << "row " << keys[i] << ", element " << e;
    }
  }
  // Whoever was not pushed has not moved.
  std::vector<float> whole(zero.size(), 1.0F);
  ASSERT_THAT((*again)->Pull(kSteps, whole), IsOk());
  const std::set<int64_t> pushed(keys.begin(), keys.end());
  for (int64_t row = 0; row < kServers * kRowsOfShard; ++row) {
    const float expected = pushed.count(row) > 0 ? Expected(kSteps, row, kRow - 1) : 0.0F;
    ASSERT_EQ(whole[static_cast<size_t>(row * kRow + kRow - 1)], expected) << "row " << row;
  }
  int64_t rows = 0;
  for (int32_t k = 0; k < kServers; ++k) {
    const int64_t here = Counted(&PsCounters::rows_pushed, k);
    EXPECT_EQ(here, k == idle ? 0 : kKeys / 2 * kWorkers * kSteps) << "server " << k;
    EXPECT_GE(Counted(&PsCounters::duplicates, k), kSteps + 1) << "server " << k;
    EXPECT_EQ(Counted(&PsCounters::malformed_frames, k), 0) << "server " << k;
    rows += here;
  }
  EXPECT_EQ(rows, kKeys * kWorkers * kSteps);
}

// Chunks of all rows of a server, and of three rows.
INSTANTIATE_TEST_SUITE_P(Servers, RowsTest,
                         testing::Combine(testing::Values(PsMode::kSync, PsMode::kAsync),
                                          testing::Range(0, kServers),
                                          testing::Values(int64_t{1} << 20, int64_t{800})),
                         [](const auto& row) {
                           return absl::StrCat(
                               std::get<0>(row.param) == PsMode::kSync ? "Sync" : "Async", "Idle",
                               std::get<1>(row.param), "Chunk", std::get<2>(row.param));
                         });

TEST(RowsConnectTest, APartitionThatCutsARowIsRefused) {
  ClusterOptions options;
  options.servers = 2;
  options.tensors = {300 * 48};
  Cluster cluster(options);
  PsClientOptions client = cluster.Client(0);
  client.layout.row_elements = {48};
  EXPECT_THAT(PsClient::Connect(client, cluster.clock(), cluster.abort()),
              StatusIs(absl::StatusCode::kInvalidArgument, "cuts a row of 48"));
}

}  // namespace
}  // namespace lockstep
