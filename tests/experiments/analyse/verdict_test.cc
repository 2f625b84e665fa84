#include "experiments/analyse/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "experiments/analyse/speed.h"
#include "tests/experiments/analyse/run_files.h"

namespace lockstep {
namespace {

using synthetic::Fail;
using synthetic::Find;
using synthetic::MakeVariant;
using synthetic::QuickstartFile;
using synthetic::SetRates;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct Case {
  const char* name;
  void (*change)(RunFile* run);
  const char* rule;
  const char* head;  // begins with
};

void Diverge(RunFile* run, const std::string& id) {
  ReplicaResult* replicas = Find(run, id)->mutable_replicas();
  replicas->set_state("diverged");
  replicas->set_first_diff_step(30);
  replicas->mutable_max_rel()->set_number_value(0.0031);
}
void AddAsync(double applied, RunFile* run) {
  *run->add_runs() = MakeVariant("ps_async", "ps_async", 400'000);
  StalenessResult* staleness = Find(run, "ps_async")->mutable_staleness();
  staleness->set_applied(applied);
  staleness->set_expected_applied(480);
}
void AddBounded(double clock_max, RunFile* run) {
  AddAsync(480, run);
  Find(run, "ps_async")->mutable_staleness()->set_bound(2);
  Find(run, "ps_async")->mutable_staleness()->set_clock_max(clock_max);
}
void CpuBound(RunFile* run) {
  run->mutable_host()->set_cpu_bound(true);
  run->mutable_host()->set_cores(2);
}
void KeepOnly(RunFile* run, const std::string& id) {
  const VariantResult kept = *Find(run, id);
  run->clear_runs();
  *run->add_runs() = kept;
}

// Each rule on its data, and right beside it the case that its guard must keep out.
constexpr Case kCases[] = {
    {"stopped", Fail, kRuleStopped, "Stopped: worker 2 was lost at step 41 of ring, block 1"},
    {"stopped_own_error",
     [](RunFile* run) {
       Fail(run);
       run->mutable_failures(1)->set_lost(false);
       run->mutable_failures(1)->set_step(0);
     },
     kRuleStopped, "Stopped: worker 2 failed before the first step of ring, block 1"},
    {"stopped_without_cause", [](RunFile* run) { run->set_state("failed"); }, kRuleStopped,
     "Stopped: the run ended early and no member reported why"},
    {"stopped_while_joining",
     [](RunFile* run) {
       run->set_state("failed");
       FailureInfo* failure = run->add_failures();
       failure->set_member("coordinator");
       failure->set_message("waiting for worker 1; present: worker 0 after 500 ms");
       failure->set_variant("ring");
       failure->set_block(1);
     },
     kRuleStopped, "Stopped: waiting for worker 1; ring, block 1 did not begin"},
    {"the_coordinator_can_fail",
     [](RunFile* run) {
       run->set_state("failed");
       run->add_failures()->set_member("coordinator");
       run->mutable_failures(0)->set_message("cannot listen: address in use");
     },
     kRuleStopped, "Stopped: coordinator failed before the first step"},
    {"failures_beat_the_state",
     [](RunFile* run) {
       Fail(run);
       run->set_state("complete");
     },
     kRuleStopped, "Stopped: worker 2 was lost"},
    {"aborted",
     [](RunFile* run) {
       run->set_state("aborted");
       run->mutable_experiment()->set_blocks(1);
     },
     kRuleAborted, "Stopped before the end by an interrupt: 1 block finished"},
    {"replicas_differ", [](RunFile* run) { Diverge(run, "ring"); }, kRuleReplicasDiffer,
     "Replicas differ after step 30: the workers of ring are 0.31 % apart"},
    {"replicas_differ_without_distance",
     [](RunFile* run) {
       Diverge(run, "ps_sync");
       ReplicaResult* replicas = Find(run, "ps_sync")->mutable_replicas();
       replicas->mutable_max_rel()->set_null_value(google::protobuf::NULL_VALUE);
     },
     kRuleReplicasDiffer, "Replicas differ after step 30: the workers of ps_sync are not"},
    {"own_start_values_promise_nothing",
     [](RunFile* run) {
       Diverge(run, "ring");
       run->mutable_experiment()->set_own_start(true);
     },
     kRuleOwnStart, "Every worker kept its own start values, as asked"},
    {"replicas_differ_comes_before_the_cpu",
     [](RunFile* run) {
       CpuBound(run);
       Diverge(run, "ring");
     },
     kRuleReplicasDiffer, "Replicas differ"},
    {"control_may_diverge", [](RunFile* run) { Diverge(run, "none"); }, kRuleFaster, "ring is"},
    {"asynchronous_may_diverge",
     [](RunFile* run) {
       *run->add_runs() = MakeVariant("ps_async", "ps_async", 400'000);
       Diverge(run, "ps_async");
     },
     kRuleFaster, "ring is"},
    {"repeats_differ", [](RunFile* run) { Find(run, "ring")->set_repeated_hash_equal(false); },
     kRuleRepeatsDiffer, "Runs do not repeat: ring ended with other bits"},
    {"one_block_cannot_repeat",
     [](RunFile* run) {
       run->mutable_experiment()->set_blocks(1);
       Find(run, "ring")->set_repeated_hash_equal(false);
     },
     kRuleFaster, "ring is"},
    {"unfinished_cannot_repeat",
     [](RunFile* run) {
       Find(run, "ring")->set_repeated_hash_equal(false);
       Find(run, "ring")->set_complete(false);
     },
     kRuleFaster, "ring is"},
    {"bits_differ_under_exact",
     [](RunFile* run) {
       CpuBound(run);
       run->mutable_experiment()->set_reduction_order("exact");
     },
     kRuleBitsDiffer, "Bits differ where they must agree: ps_sync ended with bits-of-, ring ended"},
    {"bits_differ_in_the_same_order",
     [](RunFile* run) {
       for (const char* id : {"ps_sync", "ring"}) Find(run, id)->set_addition_order("rank order");
     },
     kRuleBitsDiffer, "Bits differ where they must agree: ps_sync ended with"},
    {"bits_may_differ_without_a_promise",
     [](RunFile* run) { Find(run, "ring")->set_addition_order("another order"); }, kRuleFaster,
     "ring is"},
    {"updates_lost", [](RunFile* run) { AddAsync(478, run); }, kRuleUpdatesDiffer,
     "Updates were lost: ps_async applied 478 instead of 480"},
    {"updates_doubled", [](RunFile* run) { AddAsync(481, run); }, kRuleUpdatesDiffer,
     "Updates were doubled: ps_async applied 481 instead of 480"},
    {"beyond_its_bound", [](RunFile* run) { AddBounded(3, run); }, kRuleBoundBroken,
     "The bound was broken: a worker of ps_async computed from parameters 3 steps behind"},
    {"within_its_bound", [](RunFile* run) { AddBounded(2, run); }, kRuleFaster, "ring is"},
    {"every_update_once", [](RunFile* run) { AddAsync(480, run); }, kRuleFaster, "ring is"},
    {"unfinished_updates",
     [](RunFile* run) {
       AddAsync(470, run);
       Find(run, "ps_async")->set_complete(false);
     },
     kRuleFaster, "ring is"},
    {"cpu_bound", CpuBound, kRuleCpuBound,
     "ps_sync and ring keep 4 identical replicas; none drifts 12 % apart; speed: not decided "
     "on this host (6 processes on 2 cores)"},
    {"cpu_bound_with_equal_bits",
     [](RunFile* run) {
       CpuBound(run);
       Find(run, "ring")->set_final_hash(Find(run, "ps_sync")->final_hash());
     },
     kRuleCpuBound,
     "ps_sync and ring end with the same bits; none drifts 12 % apart; speed: not decided"},
    {"too_few_blocks",
     [](RunFile* run) {
       for (const char* id : {"ps_sync", "ring"}) SetRates({1'000}, Find(run, id));
     },
     kRuleTooFewBlocks, "ps_sync and ring keep 4 identical replicas"},
    {"faster", [](RunFile*) {}, kRuleFaster, "ring is 1.4 x faster than ps_sync at 4 workers"},
    {"a_little_faster_keeps_its_digits",
     [](RunFile* run) {
       SetRates({1'045, 1'055, 1'066, 1'035, 1'045}, Find(run, "ring"));
     },
     kRuleFaster, "ring is 1.05 x faster than ps_sync"},
    {"server_can_win",
     [](RunFile* run) {
       SetRates({500, 505, 510, 495, 500}, Find(run, "ring"));
     },
     kRuleFaster, "ps_sync is 2.0 x faster than ring"},
    {"equal_in_practice",
     [](RunFile* run) {
       SetRates({1'010, 1'020, 1'030, 1'000, 1'010}, Find(run, "ring"));
     },
     kRuleEqual, "ring and ps_sync are equal in practice at 4 workers: 1.0 % apart"},
    // No difference is shown, and the whole interval lies within 3 %: that is a finding too.
    {"equal_without_any_difference",
     [](RunFile* run) {
       SetRates({1'000, 1'012, 1'018, 991, 1'000}, Find(run, "ring"));
     },
     kRuleEqual, "ring and ps_sync are equal in practice at 4 workers"},
    {"no_clear_winner",
     [](RunFile* run) {
       SetRates({1'400, 700, 1'500, 800, 1'200}, Find(run, "ring"));
     },
     kRuleNoClearWinner, "No clear winner at 4 workers: ring and ps_sync are within noise"},
    {"alone", [](RunFile* run) { KeepOnly(run, "ring"); }, kRuleNeutral,
     "ring keeps 4 identical replicas"},
    {"alone_on_a_busy_host",
     [](RunFile* run) {
       CpuBound(run);
       KeepOnly(run, "ps_sync");
     },
     kRuleNeutral, "ps_sync keeps 4 identical replicas"},
    {"control_alone", [](RunFile* run) { KeepOnly(run, "none"); }, kRuleNeutral,
     "none drifts 12 % apart"},
    {"other_mathematics_is_not_compared",
     [](RunFile* run) { Find(run, "ps_sync")->set_mode("ps_async"); }, kRuleNeutral,
     "ring keeps 4 identical replicas"},
    {"other_size_is_not_compared", [](RunFile* run) { Find(run, "ps_sync")->set_workers(2); },
     kRuleNeutral, "ring keeps 4 identical replicas"},
};

class Verdict : public ::testing::TestWithParam<Case> {};

TEST_P(Verdict, FollowsItsRule) {
  RunFile run = QuickstartFile();
  GetParam().change(&run);
  const VerdictInfo verdict = Decide(run);
  EXPECT_EQ(verdict.rule(), GetParam().rule);
  EXPECT_THAT(verdict.head(), StartsWith(GetParam().head));
  EXPECT_THAT(verdict.facts(), SizeIs(4));
  EXPECT_THAT(verdict.caveat(),
              AllOf(HasSubstr("WALL"), HasSubstr("loopback on one host"), HasSubstr("Example CPU"),
                    HasSubstr("block"), HasSubstr("mean over 4 workers, global batch 128")));
  // The control is named only where it drifts, never as a winner or loser.
  EXPECT_THAT(verdict.head(), Not(HasSubstr("none is")));
  EXPECT_THAT(verdict.head(), Not(HasSubstr("than none")));
}

INSTANTIATE_TEST_SUITE_P(All, Verdict, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(VerdictTable, EveryRuleHasACase) {
  std::set<std::string> tried;
  for (const Case& one : kCases) tried.insert(one.rule);
  for (const std::string& rule : RuleNames()) EXPECT_EQ(tried.count(rule), 1U) << rule;
}

TEST(Verdict, BrokenPromisesAreThoseRulesAlone) {
  VerdictInfo verdict;
  for (const std::string& rule : RuleNames()) {
    verdict.set_rule(rule);
    const bool broken = rule == kRuleReplicasDiffer || rule == kRuleRepeatsDiffer ||
                        rule == kRuleBitsDiffer || rule == kRuleUpdatesDiffer ||
                        rule == kRuleBoundBroken;
    EXPECT_EQ(PromiseBroken(verdict), broken) << rule;
  }
}

TEST(Verdict, FewerThanFiveBlocksIsPreliminary) {
  RunFile run = QuickstartFile();
  EXPECT_THAT(Decide(run).head(), Not(HasSubstr("preliminary")));
  SetRates({1'000, 1'010, 1'020}, Find(&run, "ps_sync"));
  SetRates({1'400, 1'410, 1'430}, Find(&run, "ring"));
  EXPECT_THAT(Decide(run).head(), HasSubstr("(preliminary: 3 blocks)"));
}

TEST(Verdict, BlocksArePairedByNumber) {
  RunFile run = QuickstartFile();
  // Every block doubles the host's speed; within a block ring is 1.2 times as fast. Paired by
  // position instead, the noise would swamp it.
  SetRates({1'000, 2'000, 4'000, 8'000, 16'000}, Find(&run, "ps_sync"));
  SetRates({1'200, 2'410, 4'790, 9'600, 19'200}, Find(&run, "ring"));
  Find(&run, "ring")->clear_samples_per_s_by_block();
  Find(&run, "ring")->clear_block();
  for (const int block : {4, 3, 2, 1, 0}) {
    Find(&run, "ring")->add_block(block);
    Find(&run, "ring")
        ->add_samples_per_s_by_block(1.2 * 1'000 * (1 << block) * (1 + 0.001 * block));
  }
  EXPECT_THAT(Decide(run).head(), StartsWith("ring is 1.2 x faster"));
}

TEST(Verdict, HolmWithholdsWhatOneComparisonWouldClaim) {
  // p of ring against ps_sync is 0.03: a claim alone, none among four variants (six comparisons).
  RunFile run = QuickstartFile();
  SetRates({1'000, 1'000, 1'000, 1'000, 1'000}, Find(&run, "ps_sync"));
  SetRates({1'020, 1'060, 1'120, 1'030, 1'140}, Find(&run, "ring"));
  EXPECT_EQ(Decide(run).rule(), kRuleFaster);
  for (const char* id : {"b", "c"}) {
    *run.add_runs() = MakeVariant(id, "all_reduce", 1);
    SetRates({900, 1'100, 1'000, 950, 1'040}, Find(&run, id));
  }
  EXPECT_EQ(Decide(run).rule(), kRuleNoClearWinner);
}

TEST(Verdict, HeadlineOnABusyHostIsNeverARefusalAlone) {
  RunFile run = QuickstartFile();
  CpuBound(&run);
  for (VariantResult& variant : *run.mutable_runs()) {
    variant.mutable_replicas()->set_state("unchecked");
    variant.clear_busiest();
  }
  const VerdictInfo verdict = Decide(run);
  EXPECT_EQ(verdict.rule(), kRuleCpuBound);
  EXPECT_THAT(verdict.head(), StartsWith("none, ps_sync and ring finished 60 steps; speed: not"));
  EXPECT_THAT(verdict.caveat(), HasSubstr("Replicas of ps_sync and ring were not compared"));
  EXPECT_THAT(verdict.head(), Not(HasSubstr("identical")));
}

TEST(Verdict, BusyCoresAreNamedWhenThereAreEnough) {
  RunFile run = QuickstartFile();
  run.mutable_host()->set_cpu_bound(true);
  run.mutable_host()->set_cpu_busy(0.93);
  EXPECT_THAT(Decide(run).head(), HasSubstr("not decided on this host (cores 93 % busy)"));
}

}  // namespace
}  // namespace lockstep
