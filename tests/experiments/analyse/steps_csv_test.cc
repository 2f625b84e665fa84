#include "experiments/analyse/steps_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using synthetic::Files;
using synthetic::RunWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// RFC 4180, strictly: CRLF between records, quotes doubled within quotes.
std::vector<std::vector<std::string>> ParseCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && text.substr(i + 1, 1) == "\"") {
      row.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      row.emplace_back();
    } else if (!quoted && text.substr(i, 2) == "\r\n") {
      rows.push_back(row);
      row.assign(1, "");
      ++i;
    } else {
      row.back() += c;
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_THAT(row, ::testing::ElementsAre(""));  // the last record ends with CRLF too
  return rows;
}

using Cells = std::map<std::string, std::string>;
std::vector<Cells> Parse(const std::string& text) {
  const auto rows = ParseCsv(text);
  std::vector<Cells> cells;
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].size(), rows[0].size()) << i;
    cells.emplace_back();
    for (size_t k = 0; k < rows[0].size(); ++k) cells.back()[rows[0][k]] = rows[i][k];
  }
  return cells;
}

RunFile File(const std::string& state = "complete") {
  RunFile file;
  file.set_state(state);
  file.mutable_experiment()->set_name("quickstart");
  file.mutable_experiment()->set_global_batch(128);
  return file;
}

TEST(StepsCsv, HasARowARankAndStep) {
  const std::vector<RunRecord> runs = {synthetic::Run({.variant = "ring", .block = 2, .seed = 7}),
                                       synthetic::Run({.variant = "ps_sync", .servers = 2})};
  const auto rows = Parse(StepsToCsv(File(), runs));
  ASSERT_THAT(rows, SizeIs(2 * 4 * 20));
  Cells row = rows[20 + 9];  // ring, rank 1, step 10
  const Cells expected = {{"experiment", "quickstart"},
                          {"variant", "ring"},
                          {"mode", "all_reduce"},
                          {"algorithm", "ring"},
                          {"rate", ""},
                          {"channels", "1"},
                          {"workers", "4"},
                          {"servers", "0"},
                          {"global_batch_samples", "128"},
                          {"reduction_order", "engine"},
                          {"overlap", "1"},
                          {"block", "2"},
                          {"seed", "7"},
                          {"rank", "1"},
                          {"step", "10"},
                          {"state", "complete"},
                          {"warmup", "0"},
                          {"start_us", "91000"},
                          {"compute_us", "4000"},
                          {"sync_us", "5000"},
                          {"wait_us", "2000"},
                          {"hidden_us", "1000"},
                          {"step_us", "9000"},
                          {"samples", "32"},
                          {"loss", "10.1"},
                          {"sent_bytes", "600000"},
                          {"received_bytes", "600000"},
                          {"sent_messages", "6"},
                          {"received_messages", "7"},
                          {"parameters_hash", "h10"}};
  EXPECT_EQ(row, expected);
  row = rows[1];
  EXPECT_EQ(row["warmup"], "1");
  EXPECT_EQ(row["parameters_hash"], "");
}

TEST(StepsCsv, AsynchronousRowsNameTheirRate) {
  const auto rows =
      Parse(StepsToCsv(File(), {synthetic::Run({.variant = "ps_async", .servers = 2})}));
  ASSERT_THAT(rows, SizeIs(4 * 20));
  EXPECT_EQ(rows[9].at("rate"), "r/n");
  EXPECT_EQ(rows[9].at("channels"), "");
  EXPECT_EQ(rows[9].at("wait_us"), "0");  // nobody waits for anybody
}

TEST(StepsCsv, SettingsComeBeforeMeasurements) {
  const auto header = ParseCsv(StepsToCsv(File(), {}))[0];
  const auto at = [&](const std::string& name) {
    return std::find(header.begin(), header.end(), name) - header.begin();
  };
  EXPECT_LT(at("step"), at("start_us"));
  EXPECT_LT(at("seed"), at("start_us"));
  EXPECT_EQ(at("experiment"), 0);
}

TEST(StepsCsv, CutRunsAreMarkedAndStayParseable) {
  const std::vector<RunRecord> runs = {synthetic::Run({}), RunWith({}, [](Files* files) {
                                         (*files)[{"worker", 2}].resize(2 + 7);
                                         files->erase({"worker", 3});
                                       })};
  const auto rows = Parse(StepsToCsv(File("aborted"), runs));
  ASSERT_THAT(rows, SizeIs(4 * 20 + 2 * 20 + 7));
  EXPECT_EQ(rows.front().at("state"), "complete");  // this run had finished
  EXPECT_EQ(rows.back().at("state"), "aborted");
  EXPECT_EQ(rows.back().at("step"), "7");
  EXPECT_EQ(Parse(StepsToCsv(File("complete"), runs)).back().at("state"), "failed");
}

TEST(StepsCsv, NoNumberIsNotANumber) {
  const std::string csv =
      StepsToCsv(File(), {RunWith({}, [](Files* files) {
                   (*files)[{"worker", 0}][2].mutable_step()->set_loss(NAN);
                   (*files)[{"worker", 0}][3].mutable_step()->set_loss(INFINITY);
                 })});
  EXPECT_THAT(csv, Not(HasSubstr("nan")));
  EXPECT_THAT(csv, Not(HasSubstr("inf")));
  EXPECT_EQ(Parse(csv)[0]["loss"], "");
  EXPECT_EQ(Parse(csv)[2]["loss"], "3");
}

TEST(StepsCsv, HostileTextStaysInItsCell) {
  RunFile file = File();
  RunRecord run = synthetic::Run({.variant = "ring"});
  for (const char* name : {"a,b", "say \"hi\"", "two\r\nlines", ",\",\""}) {
    file.mutable_experiment()->set_name(name);
    EXPECT_EQ(Parse(StepsToCsv(file, {run}))[0]["experiment"], name);
  }
  for (const char* name : {"=1+1", "+1", "-1", "@x"}) {
    run.config.mutable_variant()->set_name(name);
    EXPECT_EQ(Parse(StepsToCsv(file, {run}))[0]["variant"], std::string("'") + name);
  }
}

TEST(StepsCsv, IsWrittenAsItIs) {
  const std::string path = ::testing::TempDir() + "/steps.csv";
  const std::vector<RunRecord> runs = {synthetic::Run({.variant = "ring"})};
  ASSERT_THAT(WriteStepsCsv(path, File(), runs), IsOk());
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, StepsToCsv(File(), runs));
}

}  // namespace
}  // namespace lockstep
