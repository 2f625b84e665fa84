// Random fault plans of parameter-server runs from fixed seeds, on real processes: no hang, the
// right exit code; within what the policy survives the undisturbed bits (SYNC) or every update once
// (ASYNC), beyond it the member or shard that was lost is named. 5 in the full tier, 30 in long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/core/crash_point.h"
#include "tests/system/fault_run.h"

namespace lockstep {
namespace {

#ifdef LOCKSTEP_LONG_TIER
constexpr uint64_t kPlans = 30;
#else
constexpr uint64_t kPlans = 5;
#endif
constexpr int kWorkers = 3;
constexpr int kServers = 3;
constexpr int kSteps = 30;
constexpr double kElapsedMaxS = 40;  // every bound together, on a busy machine

class Plan {
 public:
  explicit Plan(uint64_t seed) : random_(seed) {
    static constexpr const char* kPolicies[] = {"CHAIN replicas: 1", "CHAIN replicas: 2",
                                                "SNAPSHOT snapshot_every: 3", "NONE",
                                                "CHAIN replicas: 1 aggregated: false"};
    static constexpr const char* kOnLoss[] = {"REPLACE", "SHRINK", "STOP"};
    sync_ = Draw(0, 2) > 0;
    const uint64_t policy = seed % 5;
    const int on_loss = Draw(0, 2);
    server_losses_max_ = policy == 1 ? 2 : policy == 3 ? 0 : 1;
    snapshot_ = policy == 2;
    worker_survives_ = on_loss != 2;
    shrinks_ = on_loss == 1;
    options_.ps =
        absl::StrCat("mode: ", sync_ ? "SYNC" : "ASYNC", " servers: ", kServers,
                     " policy: ", kPolicies[policy], " on_worker_loss: ", kOnLoss[on_loss]);
    options_.workers = kWorkers;
    options_.steps = kSteps;
    const int faults = Draw(1, 3);
    for (int i = 0; i < faults; ++i) Draw(0, 3) == 0 ? AddWorkerFault() : AddServerFault();
  }

  const FaultRunOptions& options() const { return options_; }
  bool sync() const { return sync_; }
  // Servers and workers that a fault may end.
  const std::set<std::string>& victims() const { return victims_; }
  bool must_survive() const {
    return server_losses_ <= server_losses_max_ && (worker_losses_ == 0 || worker_survives_);
  }
  bool shrinks() const { return shrinks_ && worker_losses_ > 0; }
  std::string ToString() const {
    std::string text = options_.ps;
    for (const std::string& fault : options_.faults) absl::StrAppend(&text, "; ", fault);
    return text;
  }

 private:
  int Draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  // A snapshot has to be there before it is gone back to.
  std::string At() { return absl::StrCat(" at { step: ", Draw(snapshot_ ? 12 : 1, kSteps), " }"); }

  void AddServerFault() {
    const int index = Draw(0, kServers - 1);
    std::string text = absl::StrCat("target: \"server:", index, "\"", At(), " kind: ");
    const int kind = Draw(0, 3);
    if (kind == 3) {
      options_.faults.push_back(text + "FREEZE for: \"200ms\"");
      return;
    }
    ++server_losses_;
    victims_.insert(absl::StrCat("server ", index));
    const auto point = static_cast<size_t>(Draw(0, static_cast<int>(kCrashPoints.size()) - 1));
    absl::StrAppend(&text, kind == 0   ? "KILL"
                           : kind == 1 ? "FREEZE for: \"30s\""
                                       : absl::StrCat("CRASH_POINT point: \"",
                                                      std::string(kCrashPoints[point].name), "\""));
    options_.faults.push_back(text);
  }

  void AddWorkerFault() {
    const int index = Draw(0, kWorkers - 1);
    std::string text = absl::StrCat("target: \"worker:", index, "\"", At(), " kind: ");
    if (Draw(0, 2) == 0) {
      options_.faults.push_back(text + "FREEZE for: \"200ms\"");
      return;
    }
    ++worker_losses_;
    victims_.insert(absl::StrCat("worker ", index));
    absl::StrAppend(&text, "KILL");
    if (Draw(0, 1) == 1) absl::StrAppend(&text, " after_bucket: ", Draw(0, 2));
    options_.faults.push_back(text);
  }

  std::mt19937_64 random_;
  FaultRunOptions options_;
  bool sync_ = true;
  bool snapshot_ = false;
  bool worker_survives_ = false;
  bool shrinks_ = false;
  int server_losses_max_ = 0;
  int server_losses_ = 0;
  int worker_losses_ = 0;
  std::set<std::string> victims_;
};

class RandomPsFaultsTest : public testing::TestWithParam<uint64_t> {
 protected:
  // In rank order, the bits do not depend on how the parameters are spread, or copied.
  static const std::string& UndisturbedHash() {
    static const std::string hash = [] {
      const FaultRun run({.ps = "servers: 1", .workers = kWorkers, .steps = kSteps});
      EXPECT_EQ(run.result().exit_code, 0) << run.result().err;
      return run.FinalHash(0);
    }();
    return hash;
  }
};

// Nobody is blamed that nothing struck, and what is lost is said.
void ExpectTheLossNamed(const Plan& plan, const FaultRun& run) {
  EXPECT_EQ(run.result().exit_code, 3) << run.result().out << run.result().err;
  ASSERT_GE(run.run().failures_size(), 1);
  EXPECT_TRUE(plan.victims().contains(run.run().failures(0).member()))
      << run.run().failures(0).member() << ": " << run.run().failures(0).message();
}

void ExpectWhole(const Plan& plan, const FaultRun& run, const std::string& undisturbed) {
  const VariantResult& result = run.run().runs(0);
  EXPECT_EQ(result.recovery().false_failovers(), 0);
  if (plan.shrinks()) {  // those that are left are equal
    std::set<std::string> hashes;
    for (int index = 0; index < kWorkers; ++index) hashes.insert(run.FinalHash(index));
    hashes.erase("");
    EXPECT_GE(hashes.size(), 1U);
    if (plan.sync()) {
      EXPECT_EQ(hashes.size(), 1U);
    }
    return;
  }
  EXPECT_TRUE(result.complete());
  if (!plan.sync()) {
    EXPECT_EQ(result.staleness().applied(), result.staleness().expected_applied());
    return;
  }
  for (int index = 0; index < kWorkers; ++index) {
    EXPECT_EQ(run.FinalHash(index), undisturbed) << "worker " << index;
  }
}

TEST_P(RandomPsFaultsTest, NoHangAndNoWrongResult) {
  const Plan plan(GetParam());
  SCOPED_TRACE(plan.ToString());
  const FaultRun run(plan.options());
  ASSERT_FALSE(run.result().timed_out);
  EXPECT_LT(run.result().elapsed_s, kElapsedMaxS);
  if (run.result().exit_code != 0 && !plan.must_survive()) return ExpectTheLossNamed(plan, run);
  ASSERT_EQ(run.result().exit_code, 0) << run.result().out << run.result().err;
  ExpectWhole(plan, run, UndisturbedHash());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPsFaultsTest, testing::Range(uint64_t{0}, kPlans));

}  // namespace
}  // namespace lockstep
