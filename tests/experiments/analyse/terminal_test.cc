#include "experiments/analyse/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "experiments/analyse/verdict.h"
#include "tests/experiments/analyse/run_files.h"

namespace lockstep {
namespace {

using synthetic::Find;
using synthetic::QuickstartFile;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

std::string Line(const std::string& text, const std::string& start) {
  for (const std::string& line : Lines(text)) {
    if (absl::StartsWith(line, start)) return line;
  }
  return "";
}

RunFile Decided(RunFile run) {
  *run.mutable_verdict() = Decide(run);
  return run;
}

void ExpectFits(const std::string& text) {
  for (const std::string& line : Lines(text)) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c < 0x7F; }))
        << line;
  }
}

TEST(RenderTerminal, ShowsTheQuickstart) {
  RunFile run = QuickstartFile();
  run.mutable_host()->set_cpu_bound(true);
  run.mutable_host()->set_cores(2);
  const std::string text = RenderTerminal(
      Decided(run), {.report_path = "runs/2026-01-02T03-04-quickstart/report.html", .spec = ""});
  EXPECT_EQ(text,
            R"(ps_sync and ring keep 4 identical replicas; none drifts 12 % apart; speed: not
decided on this host (6 processes on 2 cores)

Busiest link per step: ps_sync server 0 in 0.804 MB against ring worker 2 out
0.600 MB. Counted bytes are within 0.50 % of the formulas. Repeated blocks of
the same seed ended with the same bits: ps_sync and ring. Times on this host
show its CPU; one core a process (6) or more hosts would decide the speed.

variant  samples    step ms  MB sent  formula       busiest  replicas   final
              /s    p50/p95  /worker       MB       link MB              loss
ps_sync     1020  10.0/12.5    0.400    0.400   s0 in 0.804  identical  0.250
ring        1430  10.0/12.5    0.600    0.600  w2 out 0.600  identical  0.250
none*       9000  10.0/12.5        0        0             -  12% apart  0.250
  bytes per step, 1 MB = 10^6 bytes, 1 kB = 10^3; s0 = server 0, w0 = worker 0
  formulas: ps_sync S (each server n S / s in and out); ring 2(n-1)/n S
  equal bits at the end: ps_sync; ring
  * control without synchronisation, never ranked

Time base WALL: real processes over loopback on one host (Example CPU, 2 cores);
gradient mean over 4 workers, global batch 128; 5 blocks; first 5 steps left out
of every time.

Report:
  runs/2026-01-02T03-04-quickstart/report.html

Try next:
  ./lockstep compare quickstart --blocks 10
  ./lockstep compare quickstart --set workers=2
  ./lockstep compare quickstart --only ring --set bucket_cap_mb=0.1
)");
}

TEST(RenderTerminal, TableHasEightColumnsAndRightAlignedNumbers) {
  const std::string text = RenderTerminal(Decided(QuickstartFile()), {});
  const std::string header = Line(text, "variant");
  const std::vector<std::string> titles =
      absl::StrSplit(header, absl::ByString("  "), absl::SkipWhitespace());
  EXPECT_THAT(titles, SizeIs(8));
  const std::string ring = Line(text, "ring   ");
  const std::string ps = Line(text, "ps_sync   ");
  // Cells of different width end in the same column.
  EXPECT_EQ(ring.find("w2 out 0.600") + 12, ps.find("s0 in 0.804") + 11) << text;
}

TEST(RenderTerminal, FastestFirstOnceDecidedControlLast) {
  RunFile run = QuickstartFile();
  std::string text = RenderTerminal(Decided(run), {});
  EXPECT_LT(text.find("\nring "), text.find("\nps_sync "));
  EXPECT_LT(text.find("\nps_sync "), text.find("\nnone* "));
  EXPECT_THAT(text, HasSubstr("* control without synchronisation, never ranked"));
  run.mutable_host()->set_cpu_bound(true);
  text = RenderTerminal(Decided(run), {});
  EXPECT_LT(text.find("\nps_sync "), text.find("\nring "));
}

TEST(RenderTerminal, NamesHowFarTheControlDrifts) {
  const std::string text = RenderTerminal(Decided(QuickstartFile()), {});
  EXPECT_THAT(Line(text, "none*"), HasSubstr("12% apart"));
  EXPECT_THAT(Line(text, "ring   "), HasSubstr("identical"));
}

TEST(RenderTerminal, WhatWasNotMeasuredIsADash) {
  RunFile run = QuickstartFile();
  VariantResult* ring = Find(&run, "ring");
  ring->clear_samples_per_s();
  ring->clear_step_us();
  ring->clear_bytes();
  ring->clear_busiest();
  ring->mutable_loss()->clear_final();
  const std::string line = Line(RenderTerminal(Decided(run), {}), "ring   ");
  EXPECT_EQ(std::count(line.begin(), line.end(), '-'), 6) << line;
}

// The whole quickstart: six ranked ways and the control.
RunFile AllWays() {
  RunFile run = QuickstartFile();
  for (const char* id : {"naive", "tree", "ps_schedule"}) {
    *run.add_runs() = synthetic::MakeVariant(id, "all_reduce", 600'000);
    Find(&run, id)->mutable_bytes()->set_formula_text("2(n-1)/n S");
  }
  Find(&run, "tree")->mutable_busiest()->set_node("worker 1");
  Find(&run, "tree")->mutable_busiest()->set_direction("out");
  Find(&run, "tree")->mutable_busiest()->set_bytes_per_step(800'000);
  Find(&run, "tree")->mutable_busiest()->set_formula_text("2 S, one to each neighbour");
  Find(&run, "ps_schedule")->set_final_hash(Find(&run, "ps_sync")->final_hash());
  for (const char* id : {"ps_async", "ps_async_full_rate"}) {
    *run.add_runs() = synthetic::MakeVariant(id, "ps_async", 400'000);
    VariantResult* async = Find(&run, id);
    async->mutable_bytes()->set_formula_text("S");
    async->mutable_bytes()->set_server_formula_text("n S / s");
    async->mutable_staleness()->add_server();
    async->mutable_staleness()->set_mean_update(2.42);
    async->mutable_staleness()->set_expected_mean(2.51);
    async->mutable_staleness()->set_applied(480);
    async->mutable_staleness()->set_expected_applied(480);
    async->mutable_synchrony()->set_step_gap_max(7);
    async->mutable_loss()->set_at_equal_samples(0.3102);
  }
  Find(&run, "ps_async")->mutable_loss()->set_at_equal_time(0.2801);
  return run;
}

TEST(RenderTerminal, NotesWhatTheTableHasNoColumnFor) {
  const std::string text = RenderTerminal(Decided(AllWays()), {});
  ExpectFits(text);
  EXPECT_THAT(text,
              HasSubstr("  formulas: ps_sync, ps_async and ps_async_full_rate S (each server n "
                        "S / s in\n  and out); ring, naive and ps_schedule 2(n-1)/n S; tree "
                        "2(n-1)/n S (busiest 2\n  S, one to each neighbour)\n"));
  EXPECT_THAT(text,
              HasSubstr("  equal bits at the end: ps_sync = ps_schedule; ring; naive; tree\n"));
  EXPECT_THAT(text,
              HasSubstr("  ps_async: stale by 2.4 updates (law 2.5), 480 of 480 applied, step "
                        "gap up to\n  7, loss 0.310 at equal samples, loss 0.280 at equal "
                        "time\n"));
  EXPECT_THAT(Line(text, "  ps_async_full_rate:"), HasSubstr("stale by 2.4 updates (law 2.5)"));
}

// --only takes the variant's name, not the row's, which also has the number of workers.
TEST(RenderTerminal, NextNamesTheVariantOfASweptRow) {
  RunFile run = QuickstartFile();
  Find(&run, "ring")->set_id("ring-n4");
  EXPECT_THAT(RenderTerminal(Decided(run), {}), HasSubstr("--only ring --set bucket_cap_mb=0.1"));
}

TEST(RenderTerminal, FitsWithHostileNames) {
  RunFile run = QuickstartFile();
  const std::string name(200, 'x');
  Find(&run, "ring")->set_id(name);
  Find(&run, "none")->set_id("none-" + name);
  Find(&run, "ps_sync")->set_id("\x1b[31mp\xc3\xa4ss\n\r" + name);
  run.mutable_host()->set_cpu("CPU\x07 " + name);
  ExpectFits(RenderTerminal(Decided(run), {}));
  EXPECT_THAT(RenderTerminal(Decided(run), {}), HasSubstr("p?ss"));

  run.set_state("failed");
  run.add_failures()->set_member("worker 1");
  run.mutable_failures(0)->set_message("<script>\x1b[2J" + name + "\nsecond line");
  ExpectFits(RenderTerminal(Decided(run), {}));
}

TEST(RenderTerminal, ALongWordIsCutButNotLost) {
  RunFile run;
  run.mutable_verdict()->set_head("begin " + std::string(200, 'x') + " end");
  std::string text = RenderTerminal(run, {});
  text = text.substr(0, text.find("Try next"));
  EXPECT_EQ(std::count(text.begin(), text.end(), 'x'), 200);
  EXPECT_THAT(text, HasSubstr(" end\n"));
}

TEST(RenderTerminal, FitsWithHostileNumbers) {
  for (const double value : {0.0, 1e-300, 1.2345e-9, 0.099999, 999'999.5, 123'456'789.0, 1e300}) {
    RunFile run = QuickstartFile();
    for (VariantResult& variant : *run.mutable_runs()) {
      variant.mutable_samples_per_s()->set_median(value);
      variant.mutable_step_us()->set_p50(value);
      variant.mutable_step_us()->set_p95(value * 1.7);
      variant.mutable_bytes()->set_tx_per_worker_step(value);
      variant.mutable_bytes()->set_formula(value);
      variant.mutable_busiest()->set_node("server 1234567");
      variant.mutable_busiest()->set_bytes_per_step(value);
      variant.mutable_replicas()->set_state("diverged");
      variant.mutable_replicas()->mutable_max_rel()->set_number_value(value);
      variant.mutable_loss()->set_final(-value);
    }
    ExpectFits(RenderTerminal(Decided(run), {}));
  }
}

TEST(RenderTerminal, PathsStayWholeAndWithoutControlCharacters) {
  const std::string path = "/home/" + std::string(120, 'p') + "/m\xc3\xa4rz/\x1b[2Jreport.html";
  const std::string text =
      RenderTerminal(Decided(QuickstartFile()), {.report_path = path, .spec = "my spec.textproto"});
  EXPECT_THAT(text,
              HasSubstr("\n  /home/" + std::string(120, 'p') + "/m\xc3\xa4rz/?[2Jreport.html\n"));
  EXPECT_THAT(text, HasSubstr("./lockstep compare 'my spec.textproto' --blocks 10\n"));
}

TEST(RenderTerminal, OffersThreeCommandsThatFit) {
  RunFile run = QuickstartFile();
  run.mutable_experiment()->set_blocks(3);
  const std::string text = RenderTerminal(Decided(run), {});
  EXPECT_THAT(text, HasSubstr("\n  ./lockstep compare quickstart --blocks 5\n"
                              "  ./lockstep compare quickstart --set workers=2\n"
                              "  ./lockstep compare quickstart --only ring "
                              "--set bucket_cap_mb=0.1\n"));
  run.mutable_experiment()->set_workers(3);
  EXPECT_THAT(RenderTerminal(Decided(run), {}), HasSubstr("--set train.steps=120\n"));
  for (const char* id : {"ring", "ps_sync"}) Find(&run, id)->set_variant(std::string(60, *id));
  EXPECT_THAT(RenderTerminal(Decided(run), {}),
              HasSubstr("compare quickstart --set bucket_cap_mb=0.1\n"));
  EXPECT_THAT(RenderTerminal(Decided(run), {.report_path = "", .spec = std::string(60, 's')}),
              HasSubstr(" \\\n     --set train.steps=120\n"));
}

TEST(RenderTerminal, NextKeepsWhatTheUserSet) {
  RunFile run = QuickstartFile();
  run.mutable_experiment()->set_blocks(1);
  run.mutable_experiment()->set_bucket_cap_mb(0.1);
  const TerminalOptions options = {.report_path = "",
                                   .spec = "",
                                   .set = {"train.steps=300", "workers=4", "model=mlp { }",
                                           "limits.window_chunks=2", "bucket_cap_mb=0.1"}};
  std::string text = RenderTerminal(Decided(run), options);
  ExpectFits(text);
  text = absl::StrReplaceAll(text, {{" \\\n    ", ""}});
  EXPECT_THAT(text, HasSubstr("\n  ./lockstep compare quickstart --set train.steps=300 --set "
                              "workers=4 --set 'model=mlp { }' --set limits.window_chunks=2 --set "
                              "bucket_cap_mb=0.1 --blocks 5\n"));
  EXPECT_THAT(text, HasSubstr("--set train.steps=300 --set 'model=mlp { }' --set "
                              "limits.window_chunks=2 --set bucket_cap_mb=0.1 --set workers=2\n"));
  EXPECT_THAT(text, HasSubstr("--set train.steps=300 --set workers=4 --set 'model=mlp { }' --only "
                              "ring --set bucket_cap_mb=25\n"));
}

TEST(RenderTerminal, NextNeverHasFewerSteps) {
  for (const int steps : {1, 20, 6'000'000, 10'000'000}) {
    RunFile run = QuickstartFile();
    run.mutable_experiment()->set_workers(3);
    run.mutable_experiment()->set_steps(steps);
    const std::string text = RenderTerminal(Decided(run), {});
    EXPECT_THAT(
        text,
        HasSubstr("--set train.steps=" + std::to_string(std::min(2 * steps, 10'000'000)) + "\n"));
    EXPECT_THAT(text, Not(HasSubstr("--quick")));
  }
}

// Tiny models: what was counted stays apart from the formula.
TEST(RenderTerminal, SmallNumbersKeepThreeDigits) {
  RunFile run = QuickstartFile();
  Find(&run, "ring")->mutable_bytes()->set_tx_per_worker_step(13'040);
  Find(&run, "ring")->mutable_bytes()->set_formula(9'970);
  for (VariantResult& variant : *run.mutable_runs()) {
    variant.mutable_step_us()->set_p50(8.15);
    variant.mutable_loss()->set_final(0.000412);
  }
  const std::string text = RenderTerminal(Decided(run), {});
  ExpectFits(text);
  EXPECT_THAT(Line(text, "variant"), HasSubstr("step us  kB sent"));
  EXPECT_THAT(Line(text, "ring   "), ContainsRegex("8.15/12500 +13.0 +9.97 .* 0.000412$"));
  EXPECT_THAT(Line(text, "ps_sync   "), ContainsRegex(" 400 +400 +s0 in 804 "));
}

TEST(RenderTerminal, AFailedRunEndsWithItsLogs) {
  RunFile run = QuickstartFile();
  run.set_state("failed");
  const std::string logs = "runs/x/blocks/1-ring-seed-1/logs";
  std::string text =
      RenderTerminal(Decided(run), {.report_path = "r", .spec = "", .logs_path = logs});
  EXPECT_THAT(text, EndsWith("\n\nLogs: " + logs + "\n"));
  EXPECT_THAT(text, Not(HasSubstr("Try next")));
  EXPECT_THAT(RenderTerminal(Decided(run), {}), Not(HasSubstr("Logs:")));
  run.set_state("complete");
  text = RenderTerminal(Decided(run), {.report_path = "r", .spec = "", .logs_path = logs});
  EXPECT_THAT(text, HasSubstr("Try next"));
  EXPECT_THAT(text, Not(HasSubstr("Logs:")));
}

TEST(RenderTerminal, AFailedRunBeginsWithWhoAndWhen) {
  RunFile run = QuickstartFile();
  run.set_state("failed");
  run.clear_runs();
  FailureInfo* failure = run.add_failures();
  failure->set_member("server 0");
  failure->set_step(12);
  failure->set_lost(true);
  const std::string text = RenderTerminal(Decided(run), {});
  EXPECT_EQ(Lines(text)[0], "Stopped: server 0 was lost at step 12");
  EXPECT_THAT(text, Not(HasSubstr("samples")));  // nothing ran: no table
}

}  // namespace
}  // namespace lockstep
