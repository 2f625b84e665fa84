// `lockstep schedule cost`: times move as theory says when a setting moves, and the table says what
// it must.
#include "experiments/cli/schedule_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "proto/cost.pb.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string Costs(const ScheduleArguments& arguments, const CostArguments& costs = {}) {
  const absl::StatusOr<std::string> text = RenderCosts(arguments, costs);
  EXPECT_THAT(text, IsOk());
  return text.value_or("");
}

// CASES R59.
TEST(CostTest, HalfTheBandwidthIsTwiceTheTimeOfLargeAndTwiceTheLatencyOfTinyMessages) {
  constexpr int64_t kLarge = 256 << 20;
  constexpr int64_t kTiny = 4;
  constexpr double kWithin = 0.05;
  const CostModel base{.latency_ns = 10'000, .beta_ns_per_byte = 1};
  CostModel thin = base;
  thin.beta_ns_per_byte *= 2;
  CostModel far = base;
  far.latency_ns *= 2;
  for (const CostRow& row : CostRows({.world_size = 4}, false)) {
    const auto ratio = [&](const CostModel& cost, int64_t bytes) {
      return CostOf(row, cost, bytes)->simulated_ns / CostOf(row, base, bytes)->simulated_ns;
    };
    EXPECT_NEAR(ratio(thin, kLarge), 2, 2 * kWithin) << row.name;
    EXPECT_NEAR(ratio(far, kTiny), 2, 2 * kWithin) << row.name;
  }
}

TEST(CostTest, NoRowIsBelowTheBoundAndFormulasAgreeWithTheSimulation) {
  const CostModel cost{.latency_ns = 20'000,
                       .overhead_ns = 5'000,
                       .beta_ns_per_byte = 0.8,
                       .gamma_ns_per_byte = 0.1};
  for (const int64_t bytes : {int64_t{4}, int64_t{64} << 10, int64_t{16} << 20}) {
    for (const CostRow& row : CostRows({.world_size = 8}, false)) {
      const auto found = CostOf(row, cost, bytes);
      ASSERT_THAT(found, IsOk());
      EXPECT_GE(found->simulated_ns, LowerBoundNs(row.parts[0], cost, bytes)) << row.name;
      ASSERT_TRUE(found->formula_ns.has_value()) << row.name;
      EXPECT_NEAR(found->simulated_ns / *found->formula_ns, 1, 0.1) << row.name << " " << bytes;
    }
  }
}

// CASES R66: one table of messages, bytes by role, longest chain and time for all ways.
TEST(CostTest, TheTableHasEveryWayWithMessagesBytesChainAndTime) {
  const std::string text = Costs({.ranks = 4});
  EXPECT_THAT(text, HasSubstr("all_reduce of S bytes on 4 ranks, links of 10 Gbit/s in\neach "
                              "direction, latency 20 us, overhead 5 us a message, adding 0.1 ns"));
  for (const char* row :
       {"ring +24 +6  1\\.5 S\n", "naive +12 +1  3 S\n",
        "reduce \\+ broadcast +48 +[0-9]+  [0-9.]+ S\n",
        "reduce_scatter \\+ all_gather +24 +6  1\\.5 S\n",
        "ps_exchange, 1 spare +8 +2  1\\.\\.4 S\n", "ps_exchange, 4 spare +32 +2  1 S\n",
        "ps_exchange, 4 colocated +24 +2  1\\.5 S\n"}) {
    EXPECT_THAT(text, ContainsRegex(row));
  }
  EXPECT_THAT(text, ContainsRegex("4 B +256 B +16 KiB +1 MiB +64 MiB\nring +[0-9.]+ us"));
  EXPECT_THAT(text, ContainsRegex("\n  by formula +[0-9.]+ us"));
  EXPECT_THAT(text, ContainsRegex("\nno way is faster than +[0-9.]+ us"));
  EXPECT_THAT(text,
              ContainsRegex("\nFastest \\(\\*\\)\n  from 4 B: [a-z_]+\n  from [0-9.]+ .i?B: "));
  EXPECT_THAT(text, HasSubstr("  ring:\n    2(n-1)*alpha + 2(n-1)/n*S*beta + (n-1)/n*S*gamma\n"));
}

TEST(CostTest, JsonHasTheNumbersOfTheTable) {
  CostFile file;
  ASSERT_THAT(FromJson(Costs({.ranks = 4}, {.json = true}), kCostJson, &file), IsOk());
  EXPECT_EQ(file.ranks(), 4);
  EXPECT_EQ(file.gbps(), 10);
  ASSERT_GT(file.ways_size(), 10);
  ASSERT_EQ(file.least_size(), 5);
  for (const CostWay& way : file.ways()) {
    ASSERT_EQ(way.time_size(), 5) << way.name();
    for (int k = 0; k < 5; ++k) {
      EXPECT_EQ(way.time(k).bytes(), file.least(k).bytes());
      if (absl::StrContains(way.name(), "spare")) continue;  // on hosts of their own
      EXPECT_GE(way.time(k).simulated_us(), file.least(k).simulated_us()) << way.name();
    }
    if (way.name() != "ring") continue;
    EXPECT_EQ(way.messages(), 24);
    EXPECT_EQ(way.chain(), 6);
    EXPECT_EQ(way.sent_most(), 1.5);
    EXPECT_EQ(way.formula(), "2(n-1)*alpha + 2(n-1)/n*S*beta + (n-1)/n*S*gamma");
    EXPECT_NEAR(way.time(4).formula_us(), way.time(4).simulated_us(),
                way.time(4).simulated_us() / 100);
  }
  ASSERT_GE(file.fastest_size(), 2);
  EXPECT_EQ(file.fastest(0).from_bytes(), 4);
}

TEST(CostTest, TheTableFitsInEightyColumns) {
  for (const int32_t n : {1, 3, 8}) {
    const std::string text = Costs({.ranks = n}, {.sizes = "4:1MiB:8"});
    for (const auto& line : absl::StrSplit(text.substr(0, text.find("Formulas")), '\n')) {
      EXPECT_LE(line.size(), 80U) << line;
    }
  }
}

TEST(CostTest, ServersAreThoseAskedFor) {
  const std::string text = Costs({.ranks = 4, .servers = 2, .placement = "split"});
  EXPECT_THAT(text, HasSubstr("\nps_exchange, 2 split "));
  EXPECT_THAT(text, Not(HasSubstr("spare  ")));
}

TEST(CostTest, SettingsThatDoNothingAreReported) {
  EXPECT_THAT(Costs({.ranks = 1}), HasSubstr("none of these settings is used"));
  EXPECT_THAT(Costs({.ranks = 2}), Not(HasSubstr("none of these settings is used")));
}

TEST(CostTest, BadUsageIsRefused) {
  const auto refused = [](const char* what) {
    return StatusIs(StatusCode::kInvalidArgument, what);
  };
  EXPECT_THAT(RenderCosts({}, {}), refused("--ranks is needed"));
  EXPECT_THAT(RenderCosts({.ranks = 4, .root = 1}, {}), refused("takes no --collective and no"));
  EXPECT_THAT(RenderCosts({.ranks = 4}, {.sizes = "8:4:2"}), refused("--sizes: '8:4:2'"));
  EXPECT_THAT(RenderCosts({.ranks = 4}, {.sizes = "4:4GiB:1.2"}), refused("at most 40"));
  EXPECT_THAT(RenderCosts({.ranks = 4}, {.gbps = 0}), refused("--gbps not 0"));
  EXPECT_THAT(RenderCosts({.ranks = 4}, {.latency_us = -1}), refused("none may be negative"));
  EXPECT_THAT(RenderCosts({.ranks = 0}, {}), refused("world_size 0"));
}

}  // namespace
}  // namespace lockstep
