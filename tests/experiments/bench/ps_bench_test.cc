// What `lockstep bench ps` makes of its options and its rows.
#include "experiments/bench/ps/ps_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PsBenchOptionsTest, SizesAreWholeFloatsEachOnce) {
  const auto options = ReadPsOptions({.sizes = "1,4,6,1KiB", .workers = "4,1,4", .servers = "2"});
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->bytes, ElementsAre(4, 1024));
  EXPECT_THAT(options->workers, ElementsAre(1, 4));
  EXPECT_THAT(options->servers, ElementsAre(2));
}

TEST(PsBenchOptionsTest, ATableHasWholeRows) {
  const auto options =
      ReadPsOptions({.sizes = "1000,1KiB", .servers = "2", .rows = 3, .row_floats = 64});
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->bytes, ElementsAre(768, 1024));
  EXPECT_EQ(options->rows, 3);
  EXPECT_THAT(ReadPsOptions({.rows = 3})->bytes, ElementsAre(1 << 20, 64 << 20));
}

struct BadCase {
  const char* name;
  PsBenchArguments arguments;
  const char* error;
};
class BadOptionsTest : public testing::TestWithParam<BadCase> {};
TEST_P(BadOptionsTest, SayWhatIsWrong) {
  EXPECT_THAT(ReadPsOptions(GetParam().arguments),
              StatusIs(absl::StatusCode::kInvalidArgument, GetParam().error));
}
INSTANTIATE_TEST_SUITE_P(
    All, BadOptionsTest,
    testing::Values(BadCase{"NoSize", {.sizes = "big"}, "--sizes"},
                    BadCase{"NoWorkers", {.workers = ""}, "--workers: empty"},
                    BadCase{"ManyWorkers", {.workers = "1,17"}, "--workers: '17' must be"},
                    BadCase{"NoServer", {.servers = "0"}, "--servers: '0' must be"},
                    BadCase{"NoRound", {.rounds = 0}, "--rounds"},
                    BadCase{"CutRows", {.rows = 5, .row_floats = 48}, "--row-floats: 48 must"},
                    BadCase{"SmallTable", {.sizes = "1KiB", .rows = 5}, "table of 4 rows of 64"},
                    BadCase{"AServerWithoutRows", {.servers = "3", .rows = 2}, "2 for 3 servers"},
                    BadCase{"NoRows", {.rows = -1}, "--rows must be"}),
    [](const auto& test) { return std::string(test.param.name); });

PsBenchRow Row(int workers, double goodput, double busy_cores, int servers = 1) {
  PsBenchRow row;
  row.set_workers(workers);
  row.set_servers(servers);
  row.set_bytes(1 << 20);
  row.set_goodput_gb_s(goodput);
  row.set_busy_cores(busy_cores);
  return row;
}

TEST(KneeTest, IsWhereMoreWorkersAddLessThanATenth) {
  const std::vector<PsBenchKnee> knees =
      KneesOf({Row(1, 1.0, 1.1), Row(2, 1.9, 1.95), Row(4, 2.0, 2.0)}, 2);
  ASSERT_EQ(knees.size(), 1u);
  EXPECT_EQ(knees[0].workers(), 2);
  EXPECT_EQ(knees[0].resource(), "processors");
}

TEST(KneeTest, NamesTheServerWhereCoresAreIdle) {
  EXPECT_EQ(KneesOf({Row(1, 1.0, 1.1), Row(2, 1.05, 1.2)}, 16)[0].resource(),
            "one server's stream");
}

TEST(KneeTest, IsNotReachedWhileTheyAdd) {
  const std::vector<PsBenchKnee> knees =
      KneesOf({Row(1, 1.0, 1, 1), Row(2, 1.5, 2, 1), Row(1, 1.0, 1, 2), Row(2, 1.01, 1, 2)}, 4);
  ASSERT_EQ(knees.size(), 2u);
  EXPECT_EQ(knees[0].resource(), "not reached");
  EXPECT_EQ(knees[0].workers(), 2);
  EXPECT_EQ(knees[1].workers(), 1);
}

TEST(PsTableTest, SaysWhatIsWrongAndDefinesItsColumns) {
  PsBenchFile file;
  *file.add_rows() = Row(2, 1.5, 1);
  *file.add_knees() = KneesOf({Row(2, 1.5, 1)}, 2)[0];
  const std::string text = PsBenchText(file);
  EXPECT_THAT(text, HasSubstr("NO"));
  EXPECT_THAT(text, HasSubstr("goodput  payload pushed and pulled"));
  EXPECT_THAT(text, HasSubstr("1 MiB, 1 server: not reached with 2 workers"));
}

}  // namespace
}  // namespace lockstep
