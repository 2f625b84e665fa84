#include "experiments/report/series.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <utility>

namespace lockstep {
namespace {

void AddRun(RunFile& run, const std::string& mode, const std::string& algorithm, int servers) {
  VariantResult& result = *run.add_runs();
  result.set_id(mode + algorithm);
  result.set_mode(mode);
  result.set_algorithm(algorithm);
  result.set_servers(servers);
  result.set_ranked(mode != "none");
}

TEST(SeriesTest, EachKindHasItsLook) {
  RunFile run;
  AddRun(run, "none", "", 0);
  AddRun(run, "all_reduce", "ring", 0);
  AddRun(run, "ps_sync", "", 1);
  AddRun(run, "ps_async", "", 1);
  AddRun(run, "ps_sync", "", 2);
  AddRun(run, "all_reduce", "double_tree", 0);
  AddRun(run, "all_reduce", "naive", 0);
  const std::vector<Series> series = AssignSeries(run);
  std::vector<std::string> styles;
  styles.reserve(series.size());
  for (const Series& each : series) styles.push_back(each.style);
  EXPECT_THAT(styles, testing::ElementsAre("sc", "s0", "s1", "s2", "s3", "s4", "s5"));
}

// Same colour and shape, hollow: the second of a kind is seen to be of that kind.
TEST(SeriesTest, TheSecondOfAKindIsHollow) {
  RunFile run;
  AddRun(run, "ps_sync", "", 2);
  AddRun(run, "ps_sync", "", 4);
  AddRun(run, "ps_async", "", 2);
  AddRun(run, "ps_async", "", 3);
  AddRun(run, "all_reduce", "ring", 0);
  const std::vector<Series> series = AssignSeries(run);
  EXPECT_EQ(series[0].style, "s3");
  EXPECT_EQ(series[1].style, "s3 alt");
  EXPECT_EQ(series[1].marker, series[0].marker);
  EXPECT_EQ(series[2].style, "s2");
  EXPECT_EQ(series[3].style, "s2 alt");
  EXPECT_EQ(series[4].style, "s0");
}

// The server's exchange as a schedule is of the server's kind, not a ring.
TEST(SeriesTest, TheScheduleOfAServerLooksLikeIt) {
  RunFile run;
  AddRun(run, "all_reduce", "ps_exchange", 2);
  AddRun(run, "all_reduce", "ring", 0);
  const std::vector<Series> series = AssignSeries(run);
  EXPECT_EQ(series[0].style, "s3");
  EXPECT_EQ(series[1].style, "s0");
}

TEST(SeriesTest, AVariantKeepsItsLookOverSizes) {
  RunFile run;
  for (const int workers : {1, 2, 4}) {
    for (const char* variant : {"ring", "tree"}) {
      AddRun(run, "all_reduce", variant, 0);
      run.mutable_runs(run.runs_size() - 1)->set_variant(variant);
      run.mutable_runs(run.runs_size() - 1)->set_workers(workers);
    }
  }
  const std::vector<Series> series = AssignSeries(run);
  for (size_t i = 0; i < series.size(); ++i) {
    EXPECT_EQ(series[i].style, i % 2 == 0 ? "s0" : "s4");
  }
}

TEST(SeriesTest, NoTwoAlikeAmongThirtySix) {
  RunFile run;
  for (int i = 0; i < 36; ++i) AddRun(run, "all_reduce", "ring", i);  // servers tell them apart
  std::set<std::pair<std::string, std::string>> looks;
  for (const Series& each : AssignSeries(run)) looks.insert({each.style, each.marker});
  EXPECT_EQ(looks.size(), 36U);
}

TEST(SeriesTest, AnyNumberOfVariantsIsDrawn) {
  RunFile run;
  for (int i = 0; i < 100; ++i) AddRun(run, "ps_sync", "", i);
  EXPECT_EQ(AssignSeries(run).size(), 100U);
  EXPECT_TRUE(AssignSeries(RunFile()).empty());
}

}  // namespace
}  // namespace lockstep
