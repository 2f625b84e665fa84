// What every way to stay in step promises, each seen in a whole comparison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/system/comparison.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kSynchronous = {"ps_sync", "naive", "ring", "tree", "ps_schedule"};

// CASES R45: the number of model versions and the largest step gap prove synchrony or its absence.
TEST(WaysTest, ProofOfSynchrony) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, {"--blocks", "1", "--set", "train.steps=100", "--only",
                                          "ps_sync", "--only", "ps_async", "--only", "ring"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  for (const char* id : {"ps_sync", "ring"}) {
    const SynchronyResult& synchrony = VariantOf(compared.run, id).synchrony();
    EXPECT_EQ(synchrony.model_versions(), 100) << id;
    EXPECT_LE(synchrony.step_gap_max(), 1) << id;
  }
  const SynchronyResult& async = VariantOf(compared.run, "ps_async").synchrony();
  EXPECT_EQ(async.model_versions(), 400);
  EXPECT_GE(async.step_gap_max(), 1);
}

// No update is lost or applied twice, and the mean staleness is the one that the gaps explain.
TEST(WaysTest, AsynchronousUpdatesAreCountedAndTheirStalenessExplained) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, {"--blocks", "2", "--set", "train.steps=120", "--only",
                                          "ps_async", "--only", "ps_async_r"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  for (const char* id : {"ps_async", "ps_async_r"}) {
    const VariantResult& variant = VariantOf(compared.run, id);
    const StalenessResult& staleness = variant.staleness();
    EXPECT_EQ(staleness.applied(), 2 * 4 * 120) << id;
    EXPECT_EQ(staleness.expected_applied(), staleness.applied()) << id;
    EXPECT_GT(staleness.mean_update(), 0) << id;
    EXPECT_NEAR(staleness.mean_update(), staleness.expected_mean(), 0.5) << id;
    EXPECT_TRUE(variant.loss().has_final()) << id;
  }
  EXPECT_EQ(VariantOf(compared.run, "ps_async").rate(), "r/n");
  EXPECT_EQ(VariantOf(compared.run, "ps_async_r").rate(), "r");
}

class NanTest : public testing::TestWithParam<std::string> {};

// CASES R07 as well: the first line is the original rank, step and message, whoever noticed.
TEST_P(NanTest, StopsWithStepTensorAndWorker) {
  const TemporaryDir dir;
  const Compared compared =
      Compare(dir, {"--blocks", "1", "--only", GetParam(), "--set",
                    R"(fault={ at { step: 7 } target: "worker:2" kind: NAN_GRADIENT })"});
  EXPECT_EQ(compared.result.exit_code, 1) << compared.result.out << compared.result.err;
  EXPECT_THAT(compared.result.out, testing::StartsWith("Stopped: worker 2 failed at step 7"));
  EXPECT_EQ(compared.run.state(), "failed");
  ASSERT_GE(compared.run.failures_size(), 1);
  const FailureInfo& first = compared.run.failures(0);
  EXPECT_EQ(first.member(), "worker 2");
  EXPECT_EQ(first.step(), 7);
  EXPECT_FALSE(first.consequence());
  EXPECT_FALSE(first.lost());
  EXPECT_THAT(first.message(),
              testing::ContainsRegex("step 7: the gradient of [a-z0-9_.]+ is not finite \\(nan"));
  for (int i = 1; i < compared.run.failures_size(); ++i) {
    EXPECT_TRUE(compared.run.failures(i).consequence()) << compared.run.failures(i).message();
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, NanTest, testing::ValuesIn(kSynchronous),
                         [](const auto& test) { return test.param; });

class OrderOfNanTest : public testing::TestWithParam<std::string> {};

// In EXACT order a block that is not finite has an exponent of its own; the worker is still named.
TEST_P(OrderOfNanTest, ExactStopsThereToo) {
  const TemporaryDir dir;
  const Compared compared =
      Compare(dir, {"--blocks", "1", "--only", GetParam(), "--set", "reduction_order=EXACT",
                    "--set", R"(fault={ at { step: 3 } target: "worker:1" kind: NAN_GRADIENT })"});
  EXPECT_EQ(compared.result.exit_code, 1) << compared.result.out << compared.result.err;
  EXPECT_THAT(compared.result.out, testing::StartsWith("Stopped: worker 1 failed at step 3"));
}

INSTANTIATE_TEST_SUITE_P(Ways, OrderOfNanTest, testing::Values("ps_sync", "ring"),
                         [](const auto& test) { return test.param; });

// CASES R26: without the broadcast the replicas keep their distance, and the report says why.
TEST(StartValuesTest, AreEqualUnlessTheBroadcastIsOff) {
  const TemporaryDir dir;
  const Compared with = Compare(dir, {"--quick", "--only", "ring", "--set", "probe.every=5"});
  ASSERT_EQ(with.result.exit_code, 0) << with.result.out << with.result.err;
  const ReplicaResult& equal = VariantOf(with.run, "ring").replicas();
  EXPECT_EQ(equal.state(), "identical");
  ASSERT_GE(equal.probes_size(), 2);
  EXPECT_EQ(equal.probes(0).step(), 0);
  EXPECT_EQ(equal.probes(0).max_rel(), 0);

  const TemporaryDir own_dir;
  const Compared without = Compare(
      own_dir, {"--quick", "--only", "ring", "--set", "probe.every=5", "--set",
                "broadcast_start=false", "--set", "train.optimizer.sgd.learning_rate=1e-4"});
  EXPECT_EQ(without.result.exit_code, 0) << "nothing was promised: " << without.result.out;
  EXPECT_THAT(without.result.out, testing::StartsWith("Every worker kept its own start values"));
  const ReplicaResult& own = VariantOf(without.run, "ring").replicas();
  EXPECT_EQ(own.state(), "diverged");
  EXPECT_EQ(own.first_diff_step(), 0);
  ASSERT_GE(own.probes_size(), 2);
  const double at_start = own.probes(0).max_rel();
  EXPECT_GT(at_start, 0);
  // The same sums are added to different values, so the distance stays; with small steps the
  // largest weight, by which it is measured, stays too.
  for (const ProbeResult& probe : own.probes()) {
    EXPECT_NEAR(probe.max_rel() / at_start, 1, 0.01) << "step " << probe.step();
  }
  std::ostringstream report;
  report << std::ifstream(own_dir.path() + "/out/report.html").rdbuf();
  EXPECT_THAT(report.str(), HasSubstr("start values were not broadcast"));
}

// CASES R21: every way works with one worker, and one server where there are servers.
TEST(WaysTest, OneWorkerIsEnough) {
  const TemporaryDir dir;
  const Compared compared = Compare(
      dir, {"--quick", "--set", "workers=1", "--set", "variant[ps_sync].ps.servers=1", "--set",
            "variant[ps_async].ps.servers=1", "--set", "variant[ps_async_r].ps.servers=1", "--set",
            "variant[ps_schedule].all_reduce.servers=1"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  ASSERT_EQ(compared.run.runs_size(), 8);
  for (const char* id : {"naive", "ring", "tree"}) {
    EXPECT_EQ(VariantOf(compared.run, id).bytes().tx_per_worker_step(), 0) << id;
  }
  // With one worker all of them are one and the same training.
  for (const VariantResult& variant : compared.run.runs()) {
    EXPECT_EQ(variant.final_hash(), compared.run.runs(0).final_hash()) << variant.id();
  }
}

// A sweep over the number of workers is one comparison with a row for each size.
TEST(WaysTest, SweepOfWorkers) {
  const TemporaryDir dir;
  const Compared compared = Compare(
      dir, {"--quick", "--only", "ring", "--only", "ps_schedule", "--set", "workers=[1, 2, 4]"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  ASSERT_EQ(compared.run.runs_size(), 6);
  for (const char* id : {"ring-n1", "ring-n2", "ring-n4", "ps_schedule-n2"}) {
    const VariantResult& variant = VariantOf(compared.run, id);
    EXPECT_TRUE(variant.complete()) << id;
    EXPECT_EQ(variant.workers(), id[std::string(id).size() - 1] - '0');
    EXPECT_EQ(std::string(id).rfind(variant.variant() + "-n", 0), 0U) << variant.variant();
  }
}

// Every algorithm trains, its replicas are one, and its counted bytes are its schedule's.
TEST(ReadyMadeSpecsTest, Algorithms) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, {"algorithms"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  ASSERT_EQ(compared.run.runs_size(), 14);
  for (const VariantResult& variant : compared.run.runs()) {
    EXPECT_TRUE(variant.complete()) << variant.id();
    EXPECT_EQ(variant.replicas().state(), "identical") << variant.id();
    if (variant.bytes().formula() == 0) continue;  // AUTO: each bucket's size chooses
    EXPECT_NEAR(variant.bytes().tx_per_worker_step() / variant.bytes().formula(), 1, 0.01)
        << variant.id();
  }
}

// One tensor with nine tenths of the bytes: split it is spread evenly; whole, its server and those
// that are nearly idle are named. What servers count is what they hold.
TEST(ReadyMadeSpecsTest, Placement) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, {"placement", "--blocks", "1"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  for (const VariantResult& variant : compared.run.runs()) {
    const BalanceResult& balance = variant.balance();
    ASSERT_EQ(balance.server_size(), 4) << variant.id();
    EXPECT_EQ(balance.hot().name(), "linear0.weight");
    EXPECT_NEAR(balance.hot().share(), 0.9, 0.005);
    EXPECT_EQ(variant.replicas().state(), "identical") << variant.id();
    EXPECT_NEAR(variant.busiest().bytes_per_step() / variant.busiest().formula(), 1, 0.02)
        << variant.id();
    for (const ServerShare& share : balance.server()) {
      if (share.bytes() < 10'000) continue;  // headers are as large as that
      EXPECT_NEAR(share.in_per_step() / (4 * share.bytes()), 1, 0.05) << variant.id();
    }
  }
  EXPECT_LE(VariantOf(compared.run, "split").balance().max_over_mean(), 1.1);
  EXPECT_GT(VariantOf(compared.run, "in_turn").balance().max_over_mean(), 3.5);
  EXPECT_EQ(VariantOf(compared.run, "in_turn").balance().idle_size(), 2);
  EXPECT_GT(VariantOf(compared.run, "by_size").balance().max_over_mean(), 3.5);
  EXPECT_EQ(VariantOf(compared.run, "beside").busiest().formula_text(), "2(n-1)/n S");
  EXPECT_THAT(compared.result.out, HasSubstr("in_turn, placed in turn: servers hold"));
}

TEST(ReadyMadeSpecsTest, WorkerLoss) {
  const TemporaryDir dir;
  const Compared compared = Compare(dir, {"worker-loss"});
  ASSERT_EQ(compared.result.exit_code, 0) << compared.result.out << compared.result.err;
  EXPECT_THAT(compared.result.err, HasSubstr("rebuilt with 3 workers in"));
  EXPECT_THAT(compared.result.err, HasSubstr("rebuilt with 4 workers in"));
  EXPECT_TRUE(VariantOf(compared.run, "replace").complete());
}

}  // namespace
}  // namespace lockstep
