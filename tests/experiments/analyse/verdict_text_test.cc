// What a verdict says beside its headline: why, caveat, facts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/analyse/verdict.h"
#include "tests/experiments/analyse/run_files.h"

namespace lockstep {
namespace {

using synthetic::Find;
using synthetic::QuickstartFile;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Verdict, WhyGivesTheIntervalAndTheByteCheck) {
  const VerdictInfo verdict = Decide(QuickstartFile());
  EXPECT_THAT(verdict.why(), HasSubstr("Over 5 paired blocks the ratio of samples/s is 1.40 (95.0 %"
                                       " interval "));
  // The largest deviation: server in, 804,000 for 800,000.
  EXPECT_THAT(verdict.why(), HasSubstr("Counted bytes are within 0.50 % of the formulas"));
}

TEST(Verdict, WhyOfAStoppedRunIsTheFirstCause) {
  RunFile run = QuickstartFile();
  synthetic::Fail(&run);
  const std::string why = Decide(run).why();
  EXPECT_THAT(why, StartsWith("connection closed by SIGKILL."));
  EXPECT_THAT(why, HasSubstr("1 other member stopped because of it"));
}

TEST(Verdict, TheCauseIsNotCountedAmongTheOthers) {
  RunFile run = QuickstartFile();
  synthetic::Fail(&run);
  run.mutable_failures(1)->set_consequence(true);  // worker 0 comes first, worker 2 is the other
  VerdictInfo verdict = Decide(run);
  EXPECT_THAT(verdict.head(), StartsWith("Stopped: worker 0"));
  EXPECT_THAT(verdict.why(), HasSubstr("1 other member stopped because of it"));
  run.mutable_failures()->RemoveLast();
  EXPECT_THAT(Decide(run).why(), Not(HasSubstr("other member")));
}

TEST(Verdict, CaveatSaysHowGradientsAreReduced) {
  RunFile run = QuickstartFile();
  run.mutable_experiment()->set_reduce_op("sum");
  run.mutable_experiment()->set_workers(1);
  EXPECT_THAT(Decide(run).caveat(), HasSubstr("; gradient sum over 1 worker, global batch 128; "));
  run.mutable_experiment()->clear_reduce_op();
  run.mutable_experiment()->clear_global_batch();
  EXPECT_THAT(Decide(run).caveat(), HasSubstr("16 cores); 5 blocks; "));
}

TEST(Verdict, BytesFarFromTheFormulasAreSaidToBe) {
  RunFile run = QuickstartFile();
  BytesResult* bytes = Find(&run, "ring")->mutable_bytes();
  bytes->set_tx_per_worker_step(606'000);  // 1 % is still close
  EXPECT_THAT(Decide(run).why(), HasSubstr("are within 1.0 % of the formulas."));
  bytes->set_tx_per_worker_step(636'000);
  EXPECT_THAT(Decide(run).why(),
              HasSubstr("Counted bytes differ from the formulas by up to 6.0 %: headers of small "
                        "chunks and buckets."));
  bytes->set_tx_per_worker_step(300'000);  // headers cannot explain fewer
  EXPECT_THAT(Decide(run).why(), HasSubstr("differ from the formulas by up to 50 %."));
}

TEST(Verdict, FactsComeFromTheData) {
  const VerdictInfo verdict = Decide(QuickstartFile());
  ASSERT_EQ(verdict.facts_size(), 4);
  EXPECT_EQ(verdict.facts(0).value(), "0.400 MB");
  EXPECT_EQ(verdict.facts(0).label(), "gradients per step (S), 4 workers (n)");
  EXPECT_EQ(verdict.facts(1).value(), "40 % / 40 %");
  EXPECT_EQ(verdict.facts(1).label(), "of the step is exchange and update: ps_sync / ring");
  EXPECT_EQ(verdict.facts(2).value(), "0.804 MB / 0.600 MB");
  EXPECT_EQ(verdict.facts(3).value(), "identical");
  EXPECT_EQ(verdict.facts(3).label(), "replicas of ps_sync and ring; none drifts 12 % apart");
}

TEST(Verdict, AnEmptyFileStillGetsOne) {
  RunFile run;
  run.set_state("complete");
  const VerdictInfo verdict = Decide(run);
  EXPECT_EQ(verdict.rule(), kRuleNeutral);
  ASSERT_EQ(verdict.facts_size(), 4);
  for (const Fact& fact : verdict.facts()) EXPECT_EQ(fact.value(), "not measured");
}

}  // namespace
}  // namespace lockstep
