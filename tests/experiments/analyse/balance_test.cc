#include "experiments/analyse/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "experiments/analyse/aggregate.h"
#include "experiments/analyse/claims.h"
#include "experiments/analyse/terminal.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// One tensor with nine tenths of the bytes and 20 small ones, on 4 servers.
BalanceResult Spread(PsPlacement placement) {
  BalanceInput input{.tensors = {{"big", 900'000}}, .servers = 4, .placement = placement};
  for (int i = 0; i < 20; ++i) input.tensors.push_back({absl::StrCat("small", i), 5'000});
  const auto balance = BalanceOf(input);
  EXPECT_THAT(balance, IsOk());
  return balance.value_or(BalanceResult());
}
std::vector<double> BytesOf(const BalanceResult& balance) {
  std::vector<double> bytes;
  for (const ServerShare& share : balance.server()) bytes.push_back(share.bytes());
  return bytes;
}

TEST(BalanceTest, SplitIsEven) {
  const BalanceResult balance = Spread(PsPlacement::kSplit);
  double total = 0;
  for (const double bytes : BytesOf(balance)) total += bytes;
  EXPECT_EQ(total, 4'000'000);
  EXPECT_GE(balance.max_over_mean(), 1);
  EXPECT_LE(balance.max_over_mean(), 1.1);
  EXPECT_THAT(balance.hot().server(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(balance.idle(), IsEmpty());
}

TEST(BalanceTest, InTurnNamesTheHotTensorAndWhoIsIdle) {
  const BalanceResult balance = Spread(PsPlacement::kInTurn);
  EXPECT_THAT(BytesOf(balance), ElementsAre(3'700'000, 100'000, 100'000, 100'000));
  EXPECT_DOUBLE_EQ(balance.max_over_mean(), 3.7);
  EXPECT_EQ(balance.server(0).tensors(), 6);
  EXPECT_EQ(balance.hot().name(), "big");
  EXPECT_DOUBLE_EQ(balance.hot().share(), 0.9);
  EXPECT_THAT(balance.hot().server(), ElementsAre(0));
  EXPECT_THAT(balance.idle(), ElementsAre(1, 2, 3));
  EXPECT_EQ(
      BalanceText(balance),
      "in turn: servers hold 3.70, 0.100, 0.100 and 0.100 MB, largest over mean 3.70; big has "
      "90 % of the bytes, on server 0; nearly idle: servers 1, 2 and 3");
}

TEST(BalanceTest, BySizeCanNotHelpTheHotTensor) {
  const BalanceResult balance = Spread(PsPlacement::kBySize);
  EXPECT_THAT(BytesOf(balance), ElementsAre(3'600'000, 140'000, 140'000, 120'000));
  EXPECT_DOUBLE_EQ(balance.max_over_mean(), 3.6);
  EXPECT_THAT(balance.idle(), ElementsAre(1, 2, 3));
}

TEST(BalanceTest, NothingIsHotOnOneServer) {
  const auto balance = BalanceOf({.tensors = {{"only", 10}}, .servers = 1});
  ASSERT_THAT(balance, IsOk());
  EXPECT_FALSE(balance->has_hot());
  EXPECT_EQ(balance->max_over_mean(), 1);
}

// An mlp whose first weight has 96 % of the bytes; what the servers counted is beside it.
synthetic::Shape Unbalanced(PsPlacement placement, RunConfig* config) {
  const synthetic::Shape shape = {.variant = "ps_sync", .servers = 2};
  *config = synthetic::Config(shape);
  for (const int width : {64, 1'600, 2, 10}) {
    config->mutable_experiment()->mutable_model()->mutable_mlp()->add_layers(width);
  }
  config->mutable_variant()->mutable_ps()->set_placement(static_cast<Ps::Placement>(placement));
  return shape;
}

TEST(BalanceTest, ARunSaysWhatServersHeldAndCounted) {
  RunConfig config;
  const synthetic::Shape shape = Unbalanced(PsPlacement::kInTurn, &config);
  const auto result =
      Aggregate({MergeRun(config, synthetic::ReaderOf(synthetic::FilesOf(shape)))}, nullptr);
  ASSERT_THAT(result, IsOk());
  const BalanceResult& balance = result->balance();
  // Weights to server 0, biases to server 1.
  ASSERT_EQ(balance.server_size(), 2);
  EXPECT_EQ(balance.server(0).bytes(), 4 * (64 * 1'600 + 1'600 * 2 + 2 * 10));
  EXPECT_EQ(balance.server(1).bytes(), 4 * (1'600 + 2 + 10));
  EXPECT_EQ(balance.server(0).in_per_step(), 2.0 * synthetic::kGradientBytes);
  EXPECT_EQ(balance.server(0).out_per_step(), 2.0 * synthetic::kGradientBytes);
  EXPECT_EQ(balance.hot().name(), "linear0.weight");
  EXPECT_THAT(balance.idle(), ElementsAre(1));

  RunFile run;
  *run.add_runs() = *result;
  EXPECT_THAT(BalanceClaim(CollectEvidence(run)),
              HasSubstr("ps_sync, placed in turn: servers hold 0.422 and 0.00645 MB"));
  const std::string notes = absl::StrReplaceAll(RenderTerminal(run, {}), {{"\n  ", " "}});
  EXPECT_THAT(notes, HasSubstr("nearly idle: server 1"));
  run.mutable_runs(0)->mutable_balance()->set_max_over_mean(1.1);
  EXPECT_THAT(BalanceClaim(CollectEvidence(run)), IsEmpty());
  run.mutable_runs(0)->clear_balance();
  EXPECT_THAT(RenderTerminal(run, {}), Not(HasSubstr(", placed ")));
}

// The line stood under the table of every comparison, though nothing was out of balance.
TEST(BalanceTest, TheTerminalNamesThePlacementWhereItSaysSomething) {
  RunFile run;
  BalanceResult* const balance = run.add_runs()->mutable_balance();
  balance->add_server()->set_bytes(50);
  balance->add_server()->set_bytes(50);
  const auto named = [&](PsPlacement placement, double max_over_mean) {
    balance->set_placement(NameOf(placement));
    balance->set_max_over_mean(max_over_mean);
    return absl::StrContains(RenderTerminal(run, {}), ", placed ");
  };
  EXPECT_FALSE(named(PsPlacement::kSplit, 1.0));
  EXPECT_FALSE(named(PsPlacement::kSplit, kBalancedMax));
  EXPECT_TRUE(named(PsPlacement::kSplit, 1.2));
  EXPECT_TRUE(named(PsPlacement::kBySize, 1.0));
}

// The busiest link carries the largest server's share, not the mean one.
TEST(BalanceTest, TheBusiestLinkFollowsTheLargestShare) {
  RunConfig config;
  const synthetic::Shape shape = Unbalanced(PsPlacement::kInTurn, &config);
  const auto result =
      Aggregate({MergeRun(config, synthetic::ReaderOf(synthetic::FilesOf(shape)))}, nullptr);
  ASSERT_THAT(result, IsOk());
  const double share = result->balance().server(0).bytes() /
                       (result->balance().server(0).bytes() + result->balance().server(1).bytes());
  EXPECT_DOUBLE_EQ(result->busiest().formula(), 4 * share * synthetic::kGradientBytes);
  EXPECT_EQ(result->busiest().formula_text(), "n 0.985 S, server 0");
  EXPECT_DOUBLE_EQ(result->bytes().server_formula(), 2.0 * synthetic::kGradientBytes);
}

}  // namespace
}  // namespace lockstep
