// The sections of the page: present where their data are, saying what the data say.
#include "experiments/report/sections.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/experiments/report/golden.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(BytesTest, StandBesideTheFormula) {
  const std::string page = Render(Golden("normal"));
  const std::string bytes = Between(page, "<table id=\"bytes\"", "</table>");
  EXPECT_THAT(bytes, HasSubstr("2(n-1)/n S"));
  EXPECT_THAT(bytes, HasSubstr(">510,012</td>"));
  EXPECT_THAT(bytes, HasSubstr(">510,624</td>"));
  EXPECT_THAT(bytes, HasSubstr(">+0.12 %</td>"));
  // Of a server's two directions the one further from the formula counts: 681,036 of 680,016.
  EXPECT_THAT(bytes, HasSubstr(">+0.15 %</td>"));
  EXPECT_THAT(page, HasSubstr("ps_sync 2.06 MB"));
}

TEST(BytesTest, BusiestLinkHasItsLaw) {
  const std::string html = Plain(BytesHtml(MakeView(Golden("normal"))));
  const std::string numbers = Between(html, "<table id=\"busiest-numbers\"", "</table>");
  EXPECT_THAT(numbers, HasSubstr("n S / s"));
  EXPECT_THAT(numbers, HasSubstr("server 1 out"));
  EXPECT_THAT(numbers, Not(HasSubstr("No synchronisation")));  // nothing on its links
  EXPECT_THAT(html, HasSubstr("data-description=\"Bytes of a step on the busiest link"));
  RunFile run = Golden("normal");
  for (VariantResult& result : *run.mutable_runs()) result.clear_busiest();
  EXPECT_THAT(BytesHtml(MakeView(run)), Not(HasSubstr("<figure")));
  EXPECT_THAT(BytesHtml(MakeView(run)), HasSubstr("<table id=\"bytes\""));
}

TEST(MethodTest, SaysWhatWorkersComputedWith) {
  RunFile run = Golden("normal");
  EXPECT_THAT(MethodHtml(MakeView(run)), Not(HasSubstr("Workers compute with")));
  run.mutable_experiment()->set_device("GPU NVIDIA H200, math TF32, cuBLAS 13.0.2");
  EXPECT_THAT(MethodHtml(MakeView(run)),
              HasSubstr("<dt>Workers compute with</dt><dd>GPU NVIDIA H200, math TF32"));
}

TEST(LoadTest, EveryServerHasItsRowAndThePictureItsSeries) {
  RunFile run = Golden("normal");
  EXPECT_EQ(LoadHtml(MakeView(run)), "") << "older runs do not say";
  ServerSeconds& seconds = *Find(run, "ps_sync").add_server_seconds();
  seconds.set_server(1);
  seconds.set_window_s(2);
  for (const double level : {1.0, 2.0}) {
    seconds.add_in_bytes(level * 4e6);
    seconds.add_waiting(level);
    seconds.add_cpu(level / 2);
  }
  EXPECT_EQ(LoadHtml(MakeView(run)), "") << "too short for a line";
  seconds.add_in_bytes(12e6);
  seconds.add_waiting(3);
  seconds.add_cpu(0.75);
  const std::string html = Plain(LoadHtml(MakeView(run)));
  EXPECT_THAT(html, HasSubstr("id=\"load\""));
  EXPECT_THAT(html, HasSubstr("id=\"load-numbers\""));
  EXPECT_THAT(html, HasSubstr("4.00 MB"));
  EXPECT_THAT(html, HasSubstr("most 6.00 MB"));
  EXPECT_THAT(html, HasSubstr("server 1: on average 2.00 pushes wait, 0.750 processors"));
}

TEST(BalanceTest, EveryServerHasItsRow) {
  RunFile run = Golden("normal");
  EXPECT_EQ(BalanceHtml(MakeView(run)), "") << "older runs do not say";
  BalanceResult& balance = *Find(run, "ps_sync").mutable_balance();
  balance.set_placement("in turn");
  balance.set_max_over_mean(1.8);
  for (const double bytes : {900'000, 100'000}) {
    ServerShare& share = *balance.add_server();
    share.set_bytes(bytes);
    share.set_tensors(3);
  }
  balance.mutable_server(0)->set_in_per_step(3'600'000);
  balance.add_idle(1);
  balance.mutable_hot()->set_name("linear0.weight");
  balance.mutable_hot()->set_share(0.85);
  balance.mutable_hot()->add_server(0);
  const std::string html = Plain(BalanceHtml(MakeView(run)));
  EXPECT_THAT(html, HasSubstr("One server holds more than its part"));
  const std::string rows = Between(html, "<table id=\"servers\"", "</table>");
  EXPECT_THAT(rows, HasSubstr("0.900 MB"));
  EXPECT_THAT(rows, HasSubstr("3.60 MB"));
  EXPECT_THAT(rows, HasSubstr("nearly idle"));
  EXPECT_THAT(html, HasSubstr("linear0.weight has 85 % of the bytes, on server 0; nearly idle: "
                              "server 1."));
  EXPECT_THAT(Render(run), HasSubstr("<table id=\"servers\""));
  balance.set_max_over_mean(1.02);
  EXPECT_THAT(BalanceHtml(MakeView(run)), HasSubstr("Every server holds an equal part"));
}

TEST(ThroughputTest, OneSizeHasRowsSeveralHaveLines) {
  EXPECT_THAT(ThroughputHtml(MakeView(Golden("normal"))), HasSubstr("<figure id=\"throughput\""));
  const std::string swept = ThroughputHtml(MakeView(Golden("sweep")));
  EXPECT_THAT(swept, HasSubstr("<figure id=\"scaling\""));
  EXPECT_THAT(swept, HasSubstr("Ring all-reduce, 4 workers"));
  EXPECT_EQ(ThroughputHtml(MakeView(Golden("aborted"))), "");
}

TEST(AnatomyTest, OnlyTheLargestSizeIsShown) {
  const std::string html = AnatomyHtml(MakeView(Golden("sweep")));
  EXPECT_THAT(html, HasSubstr("At 4 workers."));
  EXPECT_THAT(html, HasSubstr("Ring all-reduce, 4 workers"));
  EXPECT_THAT(html, Not(HasSubstr("Ring all-reduce, 2 workers")));
}

TEST(AnatomyTest, TheStepIsThatOfTheTable) {
  RunFile run = Golden("normal");
  Anatomy& anatomy = *Find(run, "ring").mutable_anatomy_us();
  anatomy.set_compute(5880);
  anatomy.set_sync(3330);
  anatomy.set_wait(1215.4);
  const PageView view = MakeView(run);
  for (const char* cell : {">5.88</td>", ">2.11</td>", ">1.22</td>", ">9.21</td>"}) {
    EXPECT_THAT(AnatomyHtml(view), HasSubstr(cell));
  }
  EXPECT_THAT(TableHtml(view), HasSubstr("data-label=\"Mean step, ms\">9.21 <span"));
}

TEST(PredictionTest, IsLabelledAsNotMeasured) {
  RunFile run = Golden("exact");  // on two cores
  const std::string html = Plain(PredictionHtml(MakeView(run)));
  EXPECT_THAT(html, HasSubstr("predicted by the alpha-beta model, not measured"));
  EXPECT_THAT(html, HasSubstr("tcp: 21.5 µs a message (alpha), 0.440 ns a byte (beta, "
                              "2.27 GB/s)"));
  EXPECT_THAT(html, HasSubstr("here 6 processes share 2 cores"));
  run.mutable_host()->set_cpu_bound(false);
  EXPECT_THAT(PredictionHtml(MakeView(run)), Not(HasSubstr("processes share")));
  for (VariantResult& result : *run.mutable_runs()) result.clear_prediction();
  EXPECT_EQ(PredictionHtml(MakeView(run)), "");
}

TEST(ReplicasTest, SayHowFarApartAndHowSynchronous) {
  const std::string page = Render(Golden("normal"));
  const std::string replicas = Between(page, "<table id=\"replicas\"", "</table>");
  EXPECT_THAT(replicas, HasSubstr("✓ bit-identical"));
  EXPECT_THAT(replicas, HasSubstr(">exactly 0</td>"));
  EXPECT_THAT(replicas, HasSubstr("✗ differ"));
  EXPECT_THAT(replicas, HasSubstr(">30 %</td>"));
  // 120 steps: one version a step where all wait, one an update where nobody does.
  EXPECT_THAT(replicas, HasSubstr("data-label=\"Model versions\">120</td>"
                                  "<td role=\"cell\" class=\"num\" "
                                  "data-label=\"Largest step gap\">1</td>"));
  EXPECT_THAT(replicas, HasSubstr("data-label=\"Model versions\">480</td>"
                                  "<td role=\"cell\" class=\"num\" "
                                  "data-label=\"Largest step gap\">4</td>"));
  EXPECT_THAT(Render(Golden("aborted")),
              HasSubstr("distance not measured, stopped before the first probe."));
}

TEST(ReplicasTest, ABrokenRepeatIsSaid) {
  RunFile run = Golden("normal");
  // Without waiting the order of arrival decides: other bits break no promise.
  EXPECT_THAT(Render(run), Not(HasSubstr("✗ other bits")));
  EXPECT_THAT(Render(run), HasSubstr(">other bits</td>"));
  Find(run, "ring").set_repeated_hash_equal(false);
  EXPECT_THAT(Render(run), HasSubstr("✗ other bits"));
  run.mutable_experiment()->set_blocks(1);  // nothing was repeated
  EXPECT_THAT(Render(run), Not(HasSubstr("other bits")));
}

TEST(ReplicasTest, SayFromWhichStart) {
  RunFile run = Golden("exact");
  EXPECT_THAT(ReplicasHtml(MakeView(run)), HasSubstr("Start values were broadcast"));
  Find(run, "ring").mutable_replicas()->mutable_probes(0)->set_max_rel(0.12);
  const std::string html = Plain(ReplicasHtml(MakeView(run)));
  EXPECT_THAT(html, HasSubstr("Ring all-reduce starts 12 % apart: its workers’ start values were "
                              "not broadcast."));
  EXPECT_THAT(html, HasSubstr("distance is exactly 0 in ps_sync, naive, tree, ps_schedule."));
  for (VariantResult& result : *run.mutable_runs()) {
    result.mutable_replicas()->mutable_probes()->DeleteSubrange(0, 1);
  }
  EXPECT_THAT(ReplicasHtml(MakeView(run)), Not(HasSubstr("efore the first step")));
}

TEST(SameBitsTest, GroupsByHashAndShowsTheOrder) {
  const std::string html = Plain(SameBitsHtml(MakeView(Golden("normal"))));
  EXPECT_THAT(html, HasSubstr("5 synchronous ways end with 3 different sets of bits"));
  EXPECT_THAT(html, HasSubstr("data-label=\"Same bits as\">ps_sync, naive</td>"));
  EXPECT_THAT(html, HasSubstr("data-label=\"Same bits as\">none</td>"));
  EXPECT_THAT(html, HasSubstr("<code>((g0+g1)+g2)+g3</code>"));
  EXPECT_THAT(html,
              HasSubstr("100,000,000, 1, −100,000,000, 1, one from each worker, add up to 2"));
  EXPECT_THAT(html, HasSubstr("data-label=\"Sum of the example\">0 or 1</td>"));  // ring, by chunk
  EXPECT_THAT(html, Not(HasSubstr("broken promise")));
}

TEST(SameBitsTest, ExactNeedsNoOrder) {
  RunFile run = Golden("exact");
  const std::string html = SameBitsHtml(MakeView(run));
  EXPECT_THAT(html, HasSubstr("5 synchronous ways end with the same bits"));
  EXPECT_THAT(html, HasSubstr("does not matter"));
  EXPECT_THAT(html, HasSubstr("data-label=\"Sum of the example\">2</td>"));
  Find(run, "tree").set_final_hash("00");
  EXPECT_THAT(SameBitsHtml(MakeView(run)), HasSubstr("✗ broken promise:"));
}

TEST(SameBitsTest, TheSameOrderWithOtherBitsIsABrokenPromise) {
  RunFile run = Golden("normal");
  Find(run, "naive").set_final_hash("00");
  EXPECT_THAT(SameBitsHtml(MakeView(run)),
              HasSubstr("ps_sync and naive add in the same order and end with different bits."));
}

TEST(SameBitsTest, OneWayHasNobodyToAgreeWith) {
  EXPECT_EQ(SameBitsHtml(MakeView(Golden("one"))), "");
  EXPECT_EQ(SameBitsHtml(MakeView(Golden("empty"))), "");
}

TEST(StalenessTest, KeepsItsTwoCountsApart) {
  RunFile run = Golden("normal");
  const std::string html = Plain(StalenessHtml(MakeView(run)));
  EXPECT_THAT(html, HasSubstr("<figure id=\"staleness\""));
  EXPECT_THAT(html, HasSubstr("Clock staleness: updates"));
  EXPECT_THAT(html, HasSubstr("Update count: updates"));
  EXPECT_THAT(html, HasSubstr(">2,400 of 2,400</td>"));
  Find(run, "ps_async").mutable_staleness()->set_applied(2399);
  EXPECT_THAT(Plain(StalenessHtml(MakeView(run))),
              HasSubstr(">2,399 of 2,400 <span class=\"bad\">✗ differ</span></td>"));
}

TEST(StalenessTest, IsAbsentWithoutAnAsynchronousVariant) {
  EXPECT_EQ(StalenessHtml(MakeView(Golden("exact"))), "");
}

TEST(LossTest, PrintsTimeAndSamplesToTheTarget) {
  RunFile run = Golden("normal");
  const std::string html = Plain(LossHtml(MakeView(run)));
  EXPECT_THAT(html, HasSubstr("Target: loss 0.400, median over the seeds that reached it."));
  EXPECT_THAT(html, Not(HasSubstr("Preliminary")));
  EXPECT_THAT(html, HasSubstr(">3 of 5 seeds</td>"));
  EXPECT_THAT(html, HasSubstr("8,192 <span class=\"quiet\">7,936–8,576</span>"));
  for (VariantResult& result : *run.mutable_runs()) result.mutable_target()->set_seeds(2);
  EXPECT_THAT(LossHtml(MakeView(run)), HasSubstr("Preliminary: 2 seeds, a claim needs 5."));
  for (VariantResult& result : *run.mutable_runs()) {
    result.clear_target();
    result.mutable_loss()->clear_at_equal_samples();
  }
  const std::string bare = LossHtml(MakeView(run));
  EXPECT_THAT(bare, Not(HasSubstr("Target")));
  EXPECT_THAT(bare, Not(HasSubstr("equal")));
}

TEST(LossTest, IsAbsentWithoutLosses) { EXPECT_EQ(LossHtml(MakeView(Golden("aborted"))), ""); }

}  // namespace
}  // namespace lockstep
