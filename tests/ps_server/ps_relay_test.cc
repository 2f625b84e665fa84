// Message faults under gRPC: late bytes change nothing; a connection that breaks anywhere in a
// push, or before its answer is there, is told at once, and whoever connects again and pushes
// again is applied once: the bits are those of a run in which nothing happened.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/ps_server/cluster.h"
#include "tests/ps_server/relay.h"

namespace lockstep {
namespace {

using absl::StatusCode;

constexpr int64_t kSteps = 4;
constexpr int64_t kFaultStep = 2;

class RelayedRun {
 public:
  explicit RelayedRun(int64_t delay_ms)
      : cluster_(TwoWorkers()), relay_(cluster_.service(0).endpoint(), delay_ms) {}

  // Worker 0 goes through the relay, worker 1 does not; `arm` comes before the fault's step.
  template <typename Arm>
  void Train(const Arm& arm) {
    const std::vector<float> start = cluster_.Reference(0)[0];
    auto first = Connect();
    ASSERT_THAT(first, IsOk());
    client_ = *std::move(first);
    ASSERT_THAT(client_->Init(start), IsOk());
    std::thread other([this] { Other(); });
    parameters_.resize(start.size());
    EXPECT_THAT(client_->Pull(0, parameters_), IsOk());
    for (int64_t step = 1; step <= kSteps; ++step) {
      if (step == kFaultStep) arm(&relay_);
      const std::vector<float> gradients = Gradients(kSeed, 0, step, cluster_.count());
      absl::Status status = Exchange(step, gradients);
      for (int tries = 0; !status.ok() && tries < 3; ++tries) {
        failed_.push_back(status);
        client_.reset();
        auto again = Connect();
        EXPECT_THAT(again, IsOk());
        if (!again.ok()) break;
        client_ = *std::move(again);
        resumed_.push_back(client_->resume_step());
        status = Exchange(step, gradients);  // also where the server has it
      }
      EXPECT_THAT(status, IsOk()) << "step " << step;
      if (client_ == nullptr) break;
    }
    other.join();
    client_.reset();
  }

  Cluster& cluster() { return cluster_; }
  const Relay& relay() const { return relay_; }
  const std::vector<float>& parameters() const { return parameters_; }
  const std::vector<absl::Status>& failed() const { return failed_; }
  const std::vector<int64_t>& resumed() const { return resumed_; }

 private:
  static ClusterOptions TwoWorkers() {
    ClusterOptions options;
    options.workers = 2;
    return options;
  }
  absl::StatusOr<std::unique_ptr<PsClient>> Connect() {
    PsClientOptions options = cluster_.Client(0);
    options.servers = {relay_.endpoint()};
    return PsClient::Connect(options, cluster_.clock(), cluster_.abort());
  }
  absl::Status Exchange(int64_t step, const std::vector<float>& gradients) {
    const absl::Status pushed = client_->Push(step, 0, gradients);
    return pushed.ok() ? client_->Pull(step, parameters_) : pushed;
  }
  void Other() {
    auto client = cluster_.Connect(1);
    ASSERT_THAT(client, IsOk());
    std::vector<float> parameters(static_cast<size_t>(cluster_.count()));
    EXPECT_THAT((*client)->Pull(0, parameters), IsOk());
    for (int64_t step = 1; step <= kSteps; ++step) {
      const std::vector<float> gradients = Gradients(kSeed, 1, step, cluster_.count());
      EXPECT_THAT((*client)->Push(step, 0, gradients), IsOk());
      EXPECT_THAT((*client)->Pull(step, parameters), IsOk());
    }
  }

  Cluster cluster_;
  Relay relay_;
  std::unique_ptr<PsClient> client_;
  std::vector<float> parameters_;
  std::vector<absl::Status> failed_;
  std::vector<int64_t> resumed_;
};

void ExpectTheReferencesBits(RelayedRun* run) {
  const auto reference = run->cluster().Reference(kSteps);
  EXPECT_TRUE(SameBits(run->parameters(), reference[static_cast<size_t>(kSteps)]));
  EXPECT_EQ(run->cluster().reports().Await(static_cast<size_t>(kSteps)).size(),
            static_cast<size_t>(kSteps))
      << "an update a step";
}

TEST(PsRelayTest, LateBytesChangeNothing) {
  RelayedRun run(/*delay_ms=*/15);
  run.Train([](Relay* /*relay*/) {});
  ExpectTheReferencesBits(&run);
  EXPECT_TRUE(run.failed().empty());
}

// A push is 22,236 bytes and what gRPC adds.
class CutTest : public testing::TestWithParam<int64_t> {};

TEST_P(CutTest, APushThatIsMadeAgainIsAppliedOnce) {
  RelayedRun run(/*delay_ms=*/0);
  run.Train([](Relay* relay) { relay->CutAfter(Relay::kToServer, GetParam()); });
  ExpectTheReferencesBits(&run);
  EXPECT_EQ(run.relay().cuts(), 1);
  ASSERT_EQ(run.failed().size(), 1U);
  EXPECT_THAT(run.failed()[0], StatusIs(StatusCode::kUnavailable, "server 0"));
  EXPECT_EQ(run.resumed(), std::vector<int64_t>{kFaultStep - 1}) << "it was not whole";
}

INSTANTIATE_TEST_SUITE_P(Bytes, CutTest, testing::Values(1, 40, 5'000, 16'384, 22'000));

TEST(PsRelayTest, APushWhoseAnswerIsLostIsKnownWhenItComesAgain) {
  RelayedRun run(/*delay_ms=*/0);
  run.Train([](Relay* relay) { relay->CutAfter(Relay::kToClient, 9'000); });
  ExpectTheReferencesBits(&run);
  EXPECT_EQ(run.relay().cuts(), 1);
  ASSERT_EQ(run.failed().size(), 1U);
  EXPECT_THAT(run.failed()[0], StatusIs(StatusCode::kUnavailable, "server 0"));
  EXPECT_EQ(run.resumed(), std::vector<int64_t>{kFaultStep});
  int64_t duplicates = 0;
  for (const UpdateServed& served : run.cluster().reports().Await(static_cast<size_t>(kSteps))) {
    duplicates += served.duplicates;
  }
  EXPECT_GE(duplicates, 1) << "it was pushed again";
}

}  // namespace
}  // namespace lockstep
