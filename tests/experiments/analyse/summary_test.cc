// What the first lines say where a run did not go as planned: short, and true of those that are
// left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "experiments/analyse/claims.h"
#include "experiments/analyse/verdict.h"
#include "tests/experiments/analyse/run_files.h"

namespace lockstep {
namespace {

using synthetic::Find;
using synthetic::QuickstartFile;
using ::testing::HasSubstr;
using ::testing::Not;

// CASES R02: the table of all ranks' calls belongs to the report.
TEST(SummaryTest, AMismatchIsToldInItsFirstLine) {
  RunFile run = QuickstartFile();
  run.set_state("failed");
  FailureInfo* failure = run.add_failures();
  failure->set_member("worker 2");
  failure->set_step(7);
  failure->set_message(
      "all_reduce #9 failed: the calls differ: count 5 on ranks 0, 1, count 6 on rank 2."
      "\n  rank 0: all_reduce #9 (f32 sum, count 5)\n> rank 2: all_reduce #9 (f32 sum, count 6)");
  const VerdictInfo verdict = Decide(run);
  EXPECT_THAT(verdict.head(), HasSubstr("Stopped: worker 2 failed at step 7"));
  EXPECT_THAT(verdict.why(), HasSubstr("count 6 on rank 2."));
  EXPECT_THAT(verdict.why(), Not(HasSubstr("rank 0: all_reduce")));
  EXPECT_THAT(verdict.why(), HasSubstr("Finished before that"));
}

void Probe(int replicas, int lost, VariantResult* variant) {
  ProbeResult* probe = variant->mutable_replicas()->add_probes();
  for (int i = 0; i < replicas; ++i) probe->add_hash("h");
  for (int i = 0; i < lost; ++i) probe->add_hash("");
}

TEST(SummaryTest, ReplicasAreCountedWhereAGroupShrank) {
  RunFile run = QuickstartFile();
  EXPECT_THAT(ReplicaClaim(CollectEvidence(run)), HasSubstr("keep 4 identical replicas"));
  Probe(4, 0, Find(&run, "ring"));
  Probe(3, 1, Find(&run, "ring"));
  EXPECT_THAT(ReplicaClaim(CollectEvidence(run)), HasSubstr("keep 3 to 4 identical replicas"));
  Probe(3, 1, Find(&run, "ps_sync"));
  EXPECT_THAT(ReplicaClaim(CollectEvidence(run)), HasSubstr("keep 3 identical replicas"));
}

}  // namespace
}  // namespace lockstep
