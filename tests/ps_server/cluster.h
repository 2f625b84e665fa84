// cluster.h: real parameter servers and their clients over loopback, in threads, for tests.
// Everything is checked against the straight-line reference (reference.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "ps_server/client/ps_client.h"
#include "ps_server/service/ps_service.h"
#include "tests/ps_server/reference.h"
#include "tests/support/status_matchers.h"
#include "worker/sync/ps_synchronizer.h"

namespace lockstep {

inline constexpr uint64_t kSeed = 11;

// What the servers' polling threads report.
class Reports {
 public:
  PsServerEvents Events() {
    return {.set_up =
                [this](const Traffic& traffic) {
                  MutexLock lock(&mu_);
                  set_up_ += traffic;
                },
            .update =
                [this](const UpdateServed& served) {
                  MutexLock lock(&mu_);
                  updates_.push_back(served);
                }};
  }
  // An event comes when the transport has taken a reply, which may be after its worker has it.
  std::vector<UpdateServed> Await(size_t count) {
    MutexLock lock(&mu_);
    EXPECT_TRUE(mu_.AwaitFor(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return updates_.size() >= count; }, 10'000));
    return updates_;
  }
  Traffic set_up() {
    MutexLock lock(&mu_);
    return set_up_;
  }

 private:
  Mutex mu_;
  Traffic set_up_ ABSL_GUARDED_BY(mu_);
  std::vector<UpdateServed> updates_ ABSL_GUARDED_BY(mu_);
};

struct ClusterOptions {
  int workers = 1;
  int32_t servers = 1;
  std::vector<int64_t> tensors = {3'000, 50, 2'500, 9};
  Limits limits;
  bool configure = true;
  std::string token;
  PsMode mode = PsMode::kSync;
  PsOrder order = PsOrder::kRank;
  std::optional<OptimizerOptions> sgd;  // with momentum; the mean in SYNC, when unset
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : options_(options),
        sgd_(options.sgd.value_or(OptimizerOptions{
            0.1F, 0.9F,
            options.mode == PsMode::kAsync ? 1.0F : static_cast<float>(options.workers)})) {
    for (int32_t k = 0; k < options.servers; ++k) {
      PsServiceOptions service;
      service.token = options.token;
      service.events = reports_.Events();
      services_.push_back(*PsService::Start(service, clock_));
      if (options.configure) {
        EXPECT_THAT(services_.back()->Configure(Config(k)), IsOk());
      }
    }
  }

  PsServerConfig Config(int32_t server) const {
    return {.server = server,
            .servers = options_.servers,
            .world_size = options_.workers,
            .epoch = 1,
            .rules = rules(),
            .limits = options_.limits};
  }
  PsClientOptions Client(int rank) const {
    PsClientOptions client;
    for (const auto& service : services_) client.servers.push_back(service->endpoint());
    client.rank = rank;
    client.epoch = 1;
    client.token = options_.token;
    client.layout = {.rules = rules(),
                     .tensor_counts = options_.tensors,
                     .shards = options_.servers,
                     .world_size = options_.workers};
    client.limits = options_.limits;
    return client;
  }
  absl::StatusOr<std::unique_ptr<PsClient>> Connect(int rank) {
    return PsClient::Connect(Client(rank), clock_, abort_);
  }
  // One thread per worker.
  void RunWorkers(const std::function<void(int rank)>& body) const {
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(options_.workers));
    for (int w = 0; w < options_.workers; ++w) threads.emplace_back(body, w);
    for (std::thread& thread : threads) thread.join();
  }

  int64_t count() const { return *CountElements(options_.tensors); }
  std::vector<std::vector<float>> Reference(int64_t steps) const {
    return ReferenceRun(
        kSeed, options_.workers, steps, count(), sgd_,
        options_.order == PsOrder::kExact ? options_.tensors : std::vector<int64_t>());
  }
  PsService& service(size_t k) { return *services_[k]; }
  Reports& reports() { return reports_; }
  Abort& abort() { return abort_; }
  const Clock& clock() const { return clock_; }
  const ClusterOptions& options() const { return options_; }
  const OptimizerOptions& sgd() const { return sgd_; }
  PsRules rules() const {
    return {.mode = options_.mode, .order = options_.order, .optimizer = sgd_};
  }

 private:
  const ClusterOptions options_;
  const OptimizerOptions sgd_;
  MonotonicClock clock_;
  Abort abort_;
  Reports reports_;
  std::vector<std::unique_ptr<PsService>> services_;
};

// Trains `steps` steps as a worker does, through the synchronizer, in buckets from the end of the
// arena; every version must have the bits of the reference.
inline void Train(Cluster* cluster, int rank, int64_t steps,
                  const std::vector<std::vector<float>>& reference, Traffic* traffic) {
  auto client = cluster->Connect(rank);
  ASSERT_THAT(client, IsOk());
  const int64_t count = cluster->count();
  std::vector<float> parameters =
      rank == 0 ? reference[0] : std::vector<float>(static_cast<size_t>(count));
  std::vector<float> gradients;
  PsSynchronizer synchronizer(*std::move(client), rank);
  ASSERT_THAT(synchronizer.Begin(parameters), IsOk());
  EXPECT_TRUE(SameBits(parameters, reference[0]));
  const Traffic set_up = synchronizer.traffic();
  for (int64_t step = 1; step <= steps; ++step) {
    gradients = Gradients(kSeed, rank, step, count);
    for (int64_t end = count; end > 0; end -= std::min(end, count / 3 + 1)) {
      const int64_t bucket = std::min(end, count / 3 + 1);
      ASSERT_THAT(synchronizer.GradientReady(step, {0, end - bucket, bucket, 0}, gradients),
                  IsOk());
    }
    ASSERT_THAT(synchronizer.Finish(step, gradients, parameters), IsOk());
    EXPECT_TRUE(SameBits(parameters, reference[static_cast<size_t>(step)]))
        << "rank " << rank << ", step " << step;
  }
  *traffic = synchronizer.traffic() - set_up;
}

}  // namespace lockstep
