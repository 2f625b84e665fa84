// `lockstep bench ps` with real processes: ours and both roofs, every parameter right.
#include <gtest/gtest.h>

#include <string>

#include "experiments/analyse/proto_json.h"
#include "experiments/bench/bench_json.h"
#include "proto/bench.pb.h"
#include "tests/support/places.h"
#include "tests/support/status_matchers.h"
#include "tests/system/command.h"

namespace lockstep {
namespace {

TEST(PsBenchRunTest, EveryParameterIsRightAndTheJsonSaysSo) {
  const CommandResult result =
      RunCommand({BinDir() + "/lockstep", "bench", "ps", "--sizes", "4,4KiB,64KiB,3MiB",
                  "--workers", "1,2", "--servers", "1,2", "--rounds", "2", "--json"},
                 100);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  PsBenchFile file;
  ASSERT_THAT(FromJson(result.out, {"bench file", kBenchSchema}, &file), IsOk());
  // Tensors are cut at blocks of 1,024 floats, so two servers can't share one float, or 4 KiB.
  ASSERT_EQ(file.rows_size(), 2 + 2 + 4 + 4);
  for (const PsBenchRow& row : file.rows()) {
    EXPECT_TRUE(row.correct()) << row.DebugString();
    EXPECT_GT(row.goodput_gb_s(), 0);
    EXPECT_GT(row.grpc_roof_gb_s(), 0);
    EXPECT_GT(row.tcp_roof_gb_s(), 0);
    EXPECT_GT(row.cpu_s_per_gb(), 0);
    EXPECT_GE(row.ack_us().p99(), row.ack_us().p50());
    EXPECT_FALSE(row.congestion_control().empty());
  }
  EXPECT_EQ(file.knees_size(), 6);
}

// Rows of a table: each server takes its own, and together all that were pushed.
TEST(PsBenchRunTest, RowsComeBackAndTheServersCountsAddUp) {
  const CommandResult result = RunCommand(
      {BinDir() + "/lockstep", "bench", "ps", "--sizes", "1MiB", "--workers", "1,2", "--servers",
       "3", "--rows", "100", "--row-floats", "64", "--rounds", "2", "--json"},
      100);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  PsBenchFile file;
  ASSERT_THAT(FromJson(result.out, {"bench file", kBenchSchema}, &file), IsOk());
  ASSERT_EQ(file.rows_size(), 2);
  for (const PsBenchRow& row : file.rows()) {
    EXPECT_TRUE(row.correct()) << row.DebugString();
    ASSERT_EQ(row.server_rows_size(), 3);
    double sum = 0;
    for (const double rows : row.server_rows()) {
      EXPECT_GT(rows, 30 * row.workers());
      sum += rows;
    }
    EXPECT_EQ(sum, 100 * row.workers());
  }
}

TEST(PsBenchRunTest, BadUsageIsSaid) {
  const CommandResult result =
      RunCommand({BinDir() + "/lockstep", "bench", "ps", "--workers", "none"}, 20);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("--workers: 'none' must be a number of 1..16"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
