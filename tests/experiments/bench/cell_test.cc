#include "experiments/bench/cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/bench/bench_json.h"
#include "experiments/bench/summary.h"
#include "experiments/bench/table.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::DoubleEq;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TurnReport ReportOf(std::vector<int64_t> times_ns, double bytes, double messages) {
  TurnReport report;
  report.times_ns = std::move(times_ns);
  report.cpu_ns = 1'000'000;
  report.sent_bytes = bytes;
  report.sent_messages = messages;
  report.congestion = "cubic";
  return report;
}

Cell CellOf(const std::string& engine, const std::string& algorithm, int64_t bytes,
            const std::vector<double>& rounds_us) {
  Cell cell;
  cell.engine = engine;
  cell.link = "tcp";
  cell.algorithm = algorithm;
  cell.ranks = 2;
  cell.bytes = bytes;
  cell.rounds_us = rounds_us;
  cell.samples_us = rounds_us;
  cell.operations = static_cast<int64_t>(rounds_us.size());
  cell.checked = true;
  return cell;
}

TEST(BusFactorTest, IsThatOfNcclTests) {  // CASES R46
  EXPECT_THAT(*BusFactor(2), DoubleEq(1));
  EXPECT_THAT(*BusFactor(4), DoubleEq(1.5));
  EXPECT_THAT(*BusFactor(8), DoubleEq(1.75));
  EXPECT_EQ(BusFactor(1), std::nullopt);  // R21: not applicable
}

TEST(CellTest, AnOperationsTimeIsItsMeanOverRanks) {
  Cell cell = CellOf("host", "ring", 8000, {});
  cell.operations = 0;
  AddRound({ReportOf({1000, 3000, 5000}, 100, 2), ReportOf({3000, 5000, 7000}, 100, 2)}, &cell);
  EXPECT_THAT(cell.samples_us, testing::ElementsAre(2, 4, 6));
  EXPECT_THAT(cell.rounds_us, testing::ElementsAre(4));
  AddCheck({ReportOf({1}, 1, 1), ReportOf({1}, 1, 1)}, &cell);
  const BenchRow row = RowOf(cell);
  EXPECT_THAT(row.time_us().p50(), DoubleEq(4));
  EXPECT_THAT(row.time_us().min(), DoubleEq(2));
  EXPECT_THAT(row.algbw_gb_s(), DoubleEq(2));  // 8000 B in 4 us
  EXPECT_THAT(row.busbw_gb_s(), DoubleEq(2));
  EXPECT_THAT(row.cpu_ms_per_op(), DoubleEq(2.0 / 3));  // 2 ranks x 1 ms over 3 operations
  EXPECT_EQ(row.congestion_control(), "cubic");
  EXPECT_TRUE(row.correct());
}

TEST(CellTest, OneWrongRankMakesTheRowWrongForGood) {
  Cell cell = CellOf("host", "ring", 8, {1});
  TurnReport wrong = ReportOf({1}, 1, 1);
  wrong.correct = false;
  AddCheck({ReportOf({1}, 1, 1), wrong}, &cell);
  AddCheck({ReportOf({1}, 1, 1), ReportOf({1}, 1, 1)}, &cell);
  EXPECT_FALSE(RowOf(cell).correct());
}

TEST(CellTest, ARowThatWasNeverCheckedIsNotCorrect) {
  Cell cell = CellOf("host", "ring", 8, {1});
  cell.checked = false;
  EXPECT_FALSE(RowOf(cell).correct());
}

TEST(CellTest, RanksThatSentTheSameStandTogetherByRole) {
  const auto sent = SentByRole(
      {ReportOf({1}, 10, 1), ReportOf({1}, 10, 1), ReportOf({1}, 20, 1), ReportOf({1}, 20, 1)},
      /*ranks=*/3, /*servers=*/1);
  ASSERT_THAT(sent, SizeIs(3));
  EXPECT_EQ(sent[0].ranks(), "0-1");
  EXPECT_EQ(sent[0].role(), "worker");
  EXPECT_EQ(sent[1].ranks(), "2");
  EXPECT_EQ(sent[2].role(), "server");
  EXPECT_THAT(SentByRole({ReportOf({1}, -1, -1)}, 1, 0), IsEmpty());  // nobody knows
}

TEST(SummaryTest, EachSideAtItsBestSettingRoundByRound) {
  const std::vector<Cell> cells = {
      CellOf("host", "tree", 8, {9, 9, 9}), CellOf("host", "ring", 8, {1, 2, 4}),
      CellOf("mpi", "ring", 8, {50, 50, 50}), CellOf("mpi", "default", 8, {3, 4, 4}),
      CellOf("mpi", "default", 16, {1, 1, 1})};  // ours did not run
  const auto comparisons = Compare(cells);
  ASSERT_THAT(comparisons, SizeIs(1));
  EXPECT_EQ(comparisons[0].ours_setting(), "ring");
  EXPECT_EQ(comparisons[0].peer_setting(), "default");
  EXPECT_THAT(comparisons[0].ratio().median(), DoubleEq(2));  // of 3, 2, 1
  EXPECT_THAT(comparisons[0].ratio().low(), DoubleEq(1));
  EXPECT_THAT(comparisons[0].ratio().high(), DoubleEq(3));
}

TEST(SummaryTest, GeometricMeanOverSizes) {
  const std::vector<Cell> cells = {CellOf("host", "ring", 8, {1}), CellOf("mpi", "ring", 8, {4}),
                                   CellOf("host", "ring", 16, {1}), CellOf("mpi", "ring", 16, {1})};
  const auto geomeans = Geomeans(Compare(cells));
  ASSERT_THAT(geomeans, SizeIs(1));
  EXPECT_THAT(geomeans[0].ratio(), DoubleEq(2));
  EXPECT_THAT(geomeans[0].least(), DoubleEq(1));
  EXPECT_EQ(geomeans[0].sizes(), 2);
}

TEST(SummaryTest, TheCrossingIsWhereTheLargeOneStaysAhead) {
  const std::vector<Cell> cells = {
      CellOf("host", "tree", 4, {2}),  CellOf("host", "ring", 4, {1}),  // noise: once ahead
      CellOf("host", "tree", 8, {1}),  CellOf("host", "ring", 8, {2}),
      CellOf("host", "tree", 16, {3}), CellOf("host", "ring", 16, {3}),
      CellOf("host", "tree", 32, {9}), CellOf("host", "ring", 32, {5})};
  EXPECT_EQ(MeasuredCrossing(cells, "tcp", 2, "tree", "ring"), 16);
  EXPECT_EQ(MeasuredCrossing(cells, "tcp", 2, "ring", "tree"), std::nullopt);
  EXPECT_EQ(MeasuredCrossing(cells, "shm", 2, "tree", "ring"), std::nullopt);
}

TEST(SummaryTest, TheCrossingIsOfTheFirstChannels) {
  std::vector<Cell> cells = {CellOf("host", "tree", 4, {2}), CellOf("host", "ring", 4, {1}),
                             CellOf("host", "ring", 4, {3})};
  cells.back().setting = "2 channels";
  EXPECT_EQ(MeasuredCrossing(cells, "tcp", 2, "tree", "ring"), 4);
}

TEST(SummaryTest, TheFloorIsEveryByteReadAndWrittenOnce) {
  Cell ours = CellOf("host", "direct", int64_t{64} << 20, {10'000, 20'000, 30'000});
  Cell roof = CellOf("roof", "update", int64_t{64} << 20, {8'000, 15'000, 27'000});
  ours.link = roof.link = "shm";
  const auto floor = FloorOf({ours, roof});
  ASSERT_TRUE(floor.has_value());
  EXPECT_THAT(floor->moved_bytes(), DoubleEq(4.0 * (64 << 20)));
  EXPECT_THAT(floor->floor_us(), DoubleEq(15'000));
  EXPECT_THAT(floor->ours_us(), DoubleEq(20'000));
  EXPECT_THAT(floor->share(), DoubleEq(0.8));  // round by round: 0.8, 0.75, 0.9
  EXPECT_EQ(FloorOf({ours}), std::nullopt);
  ours.bytes = roof.bytes /= 2;
  EXPECT_EQ(FloorOf({ours, roof}), std::nullopt);  // caches hold that
  ours.bytes = roof.bytes *= 2;
  ours.ranks = roof.ranks = 4;
  EXPECT_EQ(FloorOf({ours, roof}), std::nullopt);
}

BenchFile SmallFile() {
  BenchFile file;
  Cell ours = CellOf("host", "ring", 4096, {1, 2});
  ours.congestion = "cubic";
  Cell peer = CellOf("gloo", "ring", 4096, {1, 2});
  peer.congestion = "bbr";
  *file.add_rows() = RowOf(ours);
  *file.add_rows() = RowOf(peer);
  return file;
}

TEST(TableTest, DefinitionsAndWarningsStandWithTheNumbers) {
  BenchFile file = SmallFile();
  for (const std::string& note : StandingNotes(file)) file.add_notes(note);
  const std::string text = BenchText(file);
  EXPECT_THAT(text, HasSubstr("algbw x 2(n-1)/n"));
  EXPECT_THAT(text, HasSubstr("10^9 bytes"));
  EXPECT_THAT(text, HasSubstr("4 KiB"));
  EXPECT_THAT(text, HasSubstr("proves nothing"));              // Gloo's small sizes
  EXPECT_THAT(text, HasSubstr("congestion controls differ"));  // cubic against bbr
}

// CASES R19: whatever the engine, and only where it happened.
TEST(TableTest, IntegersThatOverflowAreReported) {
  BenchFile file = SmallFile();
  for (BenchRow& row : *file.mutable_rows()) {
    row.set_dtype("u8");
    row.set_ranks(32);
  }
  EXPECT_THAT(StandingNotes(file),
              testing::Contains(HasSubstr("With 32 ranks sum of u8 overflows, from element ")));
  for (BenchRow& row : *file.mutable_rows()) row.set_dtype("i32");
  EXPECT_THAT(StandingNotes(file), Not(testing::Contains(HasSubstr("overflows"))));
}

TEST(TableTest, AnAutomaticRowNamesTheAlgorithmThatRan) {  // CASES R47
  BenchFile file;
  Cell cell = CellOf("host", "auto", 8, {1});
  cell.choice = "auto: star for 8..15 bytes on 2 ranks";
  *file.add_rows() = RowOf(cell);
  EXPECT_THAT(BenchText(file), HasSubstr("auto (star)"));
}

TEST(TableTest, OneRankHasNoBusBandwidth) {
  BenchFile file;
  Cell alone = CellOf("host", "ring", 8, {1});
  alone.ranks = 1;
  *file.add_rows() = RowOf(alone);
  EXPECT_THAT(BenchText(file), HasSubstr("n/a"));
  EXPECT_THAT(*BenchToJson(file), Not(HasSubstr("busbw")));
}

TEST(TableTest, CsvHasARowARow) {
  const std::string csv = BenchCsv(SmallFile());
  EXPECT_THAT(csv, HasSubstr("\nhost,ring,,tcp,2,0,4096,f32,sum,1.5,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
}

TEST(BenchJsonTest, ReadsBackAsItWas) {
  const BenchFile file = SmallFile();
  const auto json = BenchToJson(file);
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json, HasSubstr("\"schema\": \"lockstep.bench/1\""));
  const auto read = BenchFromJson(*json);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->rows(0).SerializeAsString(), file.rows(0).SerializeAsString());
  EXPECT_THAT(BenchFromJson("{\"schema\": \"lockstep.run/1\"}"),
              StatusIs(absl::StatusCode::kInvalidArgument, "lockstep.run/1"));
}

}  // namespace
}  // namespace lockstep
