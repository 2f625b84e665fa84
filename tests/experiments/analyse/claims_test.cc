#include "experiments/analyse/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/analyse/format.h"
#include "experiments/analyse/verdict.h"
#include "tests/experiments/analyse/run_files.h"

namespace lockstep {
namespace {

using synthetic::Find;
using synthetic::MakeVariant;
using synthetic::QuickstartFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The quickstart's synchronous ways: ring and tree with bits of their own, the others with those of
// the sum in rank order.
RunFile AllWays() {
  RunFile run = QuickstartFile();
  for (const char* id : {"naive", "tree", "ps_schedule"}) {
    *run.add_runs() = MakeVariant(id, "all_reduce", 400'000);
  }
  for (const char* id : {"naive", "ps_sync", "ps_schedule"}) {
    Find(&run, id)->set_final_hash("rank order");
  }
  return run;
}

std::string SameBits(const RunFile& run) { return SameBitsClaim(CollectEvidence(run)); }

TEST(SameBitsClaim, NamesThoseWhoAgree) {
  RunFile run = AllWays();
  EXPECT_EQ(SameBits(run), "ps_sync, naive and ps_schedule end with the same bits");
  run.mutable_experiment()->set_reduction_order("exact");
  for (VariantResult& variant : *run.mutable_runs()) variant.set_final_hash("one");
  EXPECT_EQ(SameBits(run), "all 5 synchronous ways end with one hash");
  Find(&run, "tree")->set_complete(false);
  EXPECT_EQ(SameBits(run), "4 variants end with one hash");
  EXPECT_EQ(SameBits(QuickstartFile()), "");  // each has its own
}

TEST(PartingClaim, SaysByHowMuch) {
  RunFile run = QuickstartFile();
  *run.add_runs() = MakeVariant("ps_async", "ps_async", 400'000);
  ReplicaResult* replicas = Find(&run, "ps_async")->mutable_replicas();
  replicas->set_state("diverged");
  replicas->set_first_diff_step(10);
  replicas->mutable_max_rel()->set_number_value(0.0081);
  EXPECT_EQ(PartingClaim(CollectEvidence(run)), "none drifts 12 % apart, ps_async 0.81 %");
  replicas->mutable_max_rel()->set_null_value(google::protobuf::NULL_VALUE);
  EXPECT_EQ(PartingClaim(CollectEvidence(run)),
            "none drifts 12 % apart, ps_async differs from step 10 on");
  replicas->set_state("identical");
  EXPECT_EQ(PartingClaim(CollectEvidence(run)), "none drifts 12 % apart");
}

TEST(FormulaClaim, LooksAtBusiestLinksAndAsynchronousWaysToo) {
  RunFile run = QuickstartFile();
  Find(&run, "ring")->mutable_busiest()->set_bytes_per_step(636'000);  // 6 % above 600,000
  EXPECT_THAT(FormulaClaim(CollectEvidence(run)),
              HasSubstr("differ from the formulas by up to 6.0 %"));
  run = QuickstartFile();
  *run.add_runs() = MakeVariant("ps_async", "ps_async", 400'000);
  Find(&run, "ps_async")->mutable_bytes()->set_rx_per_worker_step(428'000);
  EXPECT_THAT(FormulaClaim(CollectEvidence(run)), HasSubstr("by up to 7.0 %"));
}

void SetTarget(double samples, double time_s, int reached, int seeds, VariantResult* variant) {
  TargetResult* target = variant->mutable_target();
  target->set_loss(0.42);
  target->set_seeds(seeds);
  target->set_reached(reached);
  target->mutable_samples()->set_median(samples);
  target->mutable_time_s()->set_median(time_s);
}

RunFile WithTargets(int seeds) {
  RunFile run = QuickstartFile();
  *run.add_runs() = MakeVariant("ps_async", "ps_async", 400'000);
  SetTarget(9'600, 1.25, seeds, seeds, Find(&run, "ps_sync"));
  SetTarget(9'728, 1, seeds, seeds, Find(&run, "ring"));
  SetTarget(10'400, 0.8, seeds, seeds, Find(&run, "ps_async"));
  return run;
}
std::string Learning(const RunFile& run) { return LearningClaim(CollectEvidence(run)); }

TEST(LearningClaim, ComparesAcrossClassesByTheTarget) {
  EXPECT_EQ(Learning(WithTargets(5)),
            "Samples to a loss of 0.420 (median of 5 seeds): synchronous ways 9600 to 9728, "
            "ps_async 10400; time: synchronous ways 1.00 s to 1.25 s, ps_async 0.800 s");
}

TEST(LearningClaim, IsPreliminaryBelowFiveSeeds) {
  EXPECT_THAT(Learning(WithTargets(4)), HasSubstr("to a loss of 0.420 (preliminary: 4 seeds): "));
}

TEST(LearningClaim, WithholdsTimesThatShowTheCpu) {
  RunFile run = WithTargets(5);
  run.mutable_host()->set_cpu_bound(true);
  EXPECT_THAT(Learning(run), AllOf(HasSubstr("ps_async 10400"), Not(HasSubstr("time"))));
}

TEST(LearningClaim, SaysWhoDidNotGetThere) {
  RunFile run = WithTargets(5);
  Find(&run, "ps_async")->mutable_target()->set_reached(3);
  EXPECT_THAT(Learning(run), HasSubstr("ps_async 10400 (3 of 5 seeds)"));
  Find(&run, "ps_async")->mutable_target()->set_reached(0);
  EXPECT_THAT(Learning(run), HasSubstr("ps_async never"));
}

TEST(LearningClaim, NeedsWaysOfDifferentMathematics) {
  RunFile run = WithTargets(5);
  run.mutable_runs()->RemoveLast();
  EXPECT_EQ(Learning(run), "");
  EXPECT_EQ(Learning(QuickstartFile()), "");
}

TEST(PredictionClaim, IsLabelledAsOne) {
  RunFile run = QuickstartFile();
  Find(&run, "ps_sync")->mutable_prediction()->set_exchange_us(2'310);
  Find(&run, "ring")->mutable_prediction()->set_exchange_us(1'240);
  EXPECT_EQ(PredictionClaim(CollectEvidence(run)),
            "Predicted by the alpha-beta model, not measured: ring 1.2 ms of exchange a step, "
            "ps_sync 2.3 ms");
  EXPECT_EQ(PredictionClaim(CollectEvidence(QuickstartFile())), "");
}

// What a busy 2-core host shows of the whole quickstart: facts first, then what is withheld, why,
// and the model's answer, labelled.
TEST(Verdict, OfAllWaysOnABusyHost) {
  RunFile run = AllWays();
  run.mutable_host()->set_cpu_bound(true);
  run.mutable_host()->set_cores(2);
  Find(&run, "ring")->mutable_prediction()->set_exchange_us(1'240);
  Find(&run, "ps_sync")->mutable_prediction()->set_exchange_us(2'310);
  const VerdictInfo verdict = Decide(run);
  EXPECT_EQ(verdict.rule(), kRuleCpuBound);
  EXPECT_EQ(verdict.head(),
            "ps_sync, naive and ps_schedule end with the same bits; none drifts 12 % apart; "
            "speed: not decided on this host (6 processes on 2 cores)");
  EXPECT_THAT(verdict.why(),
              HasSubstr("5 variants keep 4 identical replicas. Busiest link per step: "));
  EXPECT_THAT(verdict.why(), HasSubstr("not measured: ring 1.2 ms of exchange a step"));
  EXPECT_THAT(verdict.why(), HasSubstr("Times on this host show its CPU; one core a process (6) "
                                       "or more hosts would decide the speed."));
  EXPECT_FALSE(PromiseBroken(verdict));
}

TEST(Verdict, NamesAtTheBeginningStayAsTheyAre) {
  RunFile run = QuickstartFile();
  run.mutable_host()->set_cpu_bound(true);
  Find(&run, "ring")->set_final_hash(Find(&run, "ps_sync")->final_hash());
  EXPECT_THAT(Decide(run).why(), HasSubstr("ps_sync and ring keep 4 identical replicas."));
}

TEST(Format, RoundsToSignificantDigits) {
  EXPECT_EQ(Significant(0, 3), "0");
  EXPECT_EQ(Significant(1185.2, 3), "1185");
  EXPECT_EQ(Significant(9.996, 3), "10.0");
  EXPECT_EQ(Significant(0.05124, 3), "0.0512");
  EXPECT_EQ(Significant(-2.345, 2), "-2.3");
  EXPECT_EQ(Significant(1.25e-7, 2), "1.2e-07");
  EXPECT_EQ(Significant(3e12, 3), "3.00e+12");
  EXPECT_EQ(Percent(0.123), "12 %");
  EXPECT_EQ(JoinNames({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(Counted(1, "block"), "1 block");
}

}  // namespace
}  // namespace lockstep
