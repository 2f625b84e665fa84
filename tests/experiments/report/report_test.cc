#include "experiments/report/report.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "experiments/analyse/verdict.h"
#include "experiments/report/sections.h"
#include "tests/experiments/report/golden.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string DataOf(const std::string& page) {
  return Between(page, "<script type=\"application/json\" id=\"report-data\">", "</script>");
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, VerdictAndTable) {
  const RunFile run = Golden(GetParam());
  const PageView view = MakeView(run);
  const std::string html = absl::StrCat(HeadHtml(view), TableHtml(view));
  const std::string file = absl::StrCat(GetParam(), ".html");
  const std::string expected =
      ReadText(absl::StrCat(SourceDir(), "/tests/experiments/report/golden/", file));
  if (html == expected) return;
  const std::string actual = absl::StrCat(testing::TempDir(), "report-golden-", file);
  std::ofstream(actual) << html;
  ADD_FAILURE() << "differs from golden/" << file << "; where that is meant, copy " << actual;
}

INSTANTIATE_TEST_SUITE_P(Runs, GoldenTest, testing::Values("normal", "failed", "one", "withheld"),
                         [](const auto& param_info) { return std::string(param_info.param); });

class EveryGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(EveryGoldenTest, GivesAPage) {
  const RunFile run = Golden(GetParam());
  const std::string page = Render(run);
  EXPECT_THAT(page, HasSubstr("<h1"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy"));
  RunFile embedded;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(DataOf(*RenderReport(run)), &embedded).ok());
  EXPECT_EQ(embedded.SerializeAsString(), run.SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(Runs, EveryGoldenTest,
                         testing::Values("normal", "sweep", "exact", "one", "failed", "aborted",
                                         "empty", "hostile", "many", "withheld"),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(ReportTest, TextCannotBecomeMarkup) {
  const std::string page = Render(Golden("hostile"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<svg onload")));
  EXPECT_THAT(page, Not(HasSubstr("<u>worker")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;img src=x onerror=&quot;"));
  EXPECT_THAT(DataOf(page), Not(HasSubstr("<")));
}

TEST(ReportTest, SlotNamesInDataStay) {
  const std::string page = Render(Golden("hostile"));
  EXPECT_THAT(page, HasSubstr("<h1>&lt;!-- $&amp; $1 @@HEAD@@ @@DATA@@"));
  EXPECT_THAT(page, HasSubstr("<dt>@@TABLE@@</dt>"));
}

TEST(ReportTest, ControlIsMarkedAndLast) {
  const std::string table = TableHtml(MakeView(Golden("normal")));  // none comes first in the file
  const size_t control = table.find("<span class=\"tag\">control</span>");
  ASSERT_NE(control, std::string::npos);
  EXPECT_LT(table.find("Ring all-reduce"), table.find("Parameter server"));
  EXPECT_LT(table.find("Parameter server"), control);
}

TEST(ReportTest, ABusyHostRanksNothing) {
  RunFile run = Golden("normal");
  run.mutable_host()->set_cpu_bound(true);
  run.mutable_verdict()->set_rule("cpu_bound");
  const std::string table = TableHtml(MakeView(run));
  EXPECT_LT(table.find("Parameter server"), table.find("Ring all-reduce"));  // as in the file
  EXPECT_THAT(table, HasSubstr("The processors of this host were the limit (16 cores, 41"));
  EXPECT_THAT(Render(run), HasSubstr("wall clock; the processors of this host were the limit."));
  EXPECT_THAT(TableHtml(MakeView(Golden("normal"))), Not(HasSubstr("were the limit")));
}

TEST(ReportTest, MethodNamesWhatTheNumbersDependOn) {
  const std::string page = Render(Golden("normal"));
  for (const char* part :
       {"lockstep compare experiments/specs/quickstart.textproto", "AMD EPYC 7763, 16 cores",
        "wall clock: real processes", "<dd>cubic</dd>", "85,002 parameters",
        "a bucket is exchanged while the backward pass goes on",
        "<dt>Seeds</dt><dd>1, 2, 3, 4, 5</dd>", "5 finished blocks", "the first 5 left out",
        "lockstep 0.1.0, commit 0dd0733, Release build"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// Beside the verdict and under the method: a speed or a loss means little without them.
TEST(ReportTest, SaysTheReductionAndTheGlobalBatch) {
  RunFile run = Golden("normal");
  *run.mutable_verdict() = Decide(run);
  const std::string page = Render(run);
  EXPECT_THAT(Between(page, "<p class=\"caveat\">", "</p>"),
              HasSubstr("mean over 4 workers, global batch 128"));
  EXPECT_THAT(page, HasSubstr("<dt>Global batch</dt><dd>128 samples a step</dd>"));
  EXPECT_THAT(page, HasSubstr("mean over the workers"));
}

// What lies beside the page is offered, and nothing that does not.
TEST(ReportTest, OffersTheFilesOfTheRun) {
  EXPECT_THAT(Render(Golden("normal")), Not(HasSubstr("Downloads")));
  const std::string some = FilesHtml({"run.json", "notes.txt"});
  EXPECT_THAT(some, HasSubstr("<a href=\"run.json\">run.json</a>"));
  EXPECT_THAT(some, Not(HasSubstr("notes.txt")));
  EXPECT_THAT(some, Not(HasSubstr("Perfetto")));
  const absl::StatusOr<std::string> page = RenderReport(Golden("normal"), RunFileNames());
  ASSERT_THAT(page, IsOk());
  EXPECT_THAT(*page, HasSubstr("<a href=\"trace.json\">trace.json</a>"));
  EXPECT_THAT(*page, HasSubstr("opens in Perfetto"));
}

TEST(ReportTest, AFailedRunNamesItsFirstCause) {
  RunFile run = Golden("failed");
  const std::string page = Render(run);
  EXPECT_THAT(page, HasSubstr("<h1>Stopped: worker 2 was lost at step 31 of ring, block 2</h1>"));
  EXPECT_THAT(page,
              HasSubstr("<title>Stopped: worker 2 was lost at step 31 of ring, block 2</title>"));
  EXPECT_THAT(page,
              HasSubstr("<b>worker 2</b> was lost <span class=\"quiet\">ring, block 2, step 31"));
  EXPECT_LT(page.find("killed by signal 9"), page.find("connection reset by peer"));
  EXPECT_THAT(page, HasSubstr("<span class=\"tag bad\">incomplete</span>"));
  run.clear_verdict();  // nobody judged it: the page still says what happened
  EXPECT_THAT(Render(run), HasSubstr("<h1>The run failed: worker 2, ring, block 2, step 31</h1>"));
}

TEST(ReportTest, ALongHeadlineIsSetSmaller) {
  EXPECT_THAT(Render(Golden("withheld")), HasSubstr("<h1 class=\"long\">ps_sync and ring keep"));
  EXPECT_THAT(Render(Golden("normal")), HasSubstr("<h1>Ring is"));
}

TEST(ReportTest, WhatWasNotMeasuredIsNotZero) {
  const std::string page = Render(Golden("aborted"));
  EXPECT_THAT(page, HasSubstr("<h1>The run was stopped early: partial results</h1>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"Samples/s\">–</td>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"Sent per worker, step\">–</td>"));
  EXPECT_THAT(page, HasSubstr("not compared"));
  EXPECT_THAT(page, Not(HasSubstr("<figure")));
}

TEST(ReportTest, NoVariantAtAll) {
  const std::string page = Render(Golden("empty"));
  EXPECT_THAT(page, HasSubstr("No variant was measured."));
  EXPECT_THAT(page, HasSubstr("server 1 did not join within 10 s"));
}

TEST(ReportTest, OneVariantIsNotAComparison) {
  const std::string page = Render(Golden("one"));
  EXPECT_THAT(page, HasSubstr("What was measured"));
  EXPECT_THAT(page, Not(HasSubstr("How they compare")));
  EXPECT_THAT(page, Not(HasSubstr("only the synchronisation differs")));
}

TEST(ReportTest, ALossThatBlewUpSaysSo) {
  RunFile run = Golden("normal");
  Find(run, "ring").mutable_loss()->clear_final();
  Find(run, "ring").mutable_loss()->set_final_reason("not finite from step <41> on");
  const std::string page = Render(run);
  EXPECT_THAT(page, HasSubstr("data-label=\"Final loss\">–</td>"));
  EXPECT_THAT(page,
              HasSubstr("Ring all-reduce: no final loss, not finite from step &lt;41&gt; on."));
}

TEST(ReportTest, NotANumberIsNotMeasured) {
  RunFile run = Golden("normal");
  Find(run, "ring").mutable_loss()->set_final(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(Render(run), HasSubstr("data-label=\"Final loss\">–</td>"));
}

TEST(ReportTest, RefusesAnotherSchemaAndOddIds) {
  RunFile run = Golden("normal");
  run.set_schema("lockstep.run/2");
  EXPECT_THAT(RenderReport(run), StatusIs(absl::StatusCode::kInvalidArgument, "lockstep.run/2"));
  run = Golden("normal");
  run.mutable_runs(1)->set_id("../x");
  EXPECT_THAT(RenderReport(run), StatusIs(absl::StatusCode::kInvalidArgument, "\"../x\""));
}

TEST(ReportTest, RefusesWhatNobodyCanOpen) {
  RunFile run = Golden("normal");
  run.mutable_verdict()->set_why(std::string(kReportBytesMax, 'x'));
  EXPECT_THAT(RenderReport(run),
              StatusIs(absl::StatusCode::kResourceExhausted, "probe less often"));
}

TEST(WriteReportTest, ReplacesAtOnceAndLeavesNothingElse) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "write_report";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "report.html").string();
  std::ofstream(path) << "old";
  ASSERT_THAT(WriteReport(path, Golden("one")), IsOk());
  EXPECT_EQ(ReadText(path), *RenderReport(Golden("one")));
  ASSERT_THAT(WriteReport(path, Golden("normal")), IsOk());
  EXPECT_EQ(ReadText(path), *RenderReport(Golden("normal")));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  std::ofstream((folder / "trace.json").string()) << "{}";
  ASSERT_THAT(WriteReport(path, Golden("one")), IsOk());
  EXPECT_EQ(ReadText(path), *RenderReport(Golden("one"), {"trace.json"}));
  // A folder in the way, and a folder that does not exist.
  std::filesystem::create_directories(folder / "taken.html" / "inside");
  EXPECT_THAT(WriteReport((folder / "taken.html").string(), Golden("one")), Not(IsOk()));
  EXPECT_FALSE(std::filesystem::exists(folder / "taken.html.tmp"));
  EXPECT_THAT(WriteReport((folder / "no" / "report.html").string(), Golden("one")),
              StatusIs(absl::StatusCode::kNotFound, "no/report.html"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
