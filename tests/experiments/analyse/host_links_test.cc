#include "experiments/analyse/host_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "experiments/analyse/aggregate.h"
#include "experiments/analyse/bytes.h"
#include "experiments/analyse/prediction.h"
#include "tests/experiments/analyse/synthetic.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct LinkCase {
  const char* name;
  ServerHosts hosts;
  int workers;
  std::vector<double> shares;
  double bytes;  // of S = 1,000
  const char* text;
};
class BusiestLink : public testing::TestWithParam<LinkCase> {};

TEST_P(BusiestLink, IsThatOfTheTheory) {
  const LinkCase& want = GetParam();
  const LinkLoad load = BusiestLinkOf(want.hosts, want.workers, want.shares, 1'000);
  EXPECT_DOUBLE_EQ(load.bytes, want.bytes);
  EXPECT_EQ(load.text, want.text);
}

std::vector<double> Equal(size_t servers) {
  return std::vector<double>(servers, 1.0 / static_cast<double>(servers));
}
constexpr ServerHosts kOwn = {};
constexpr ServerHosts kBeside = {.hosts = Ps::COLOCATED};
constexpr ServerHosts kOneHost = {.hosts = Ps::SHARED};
constexpr ServerHosts kTwoAHost = {.hosts = Ps::SHARED, .servers_per_host = 2};

INSTANTIATE_TEST_SUITE_P(
    All, BusiestLink,
    testing::Values(
        LinkCase{"own", kOwn, 4, Equal(2), 2'000, "n S / s"},
        LinkCase{"own_many_servers", kOwn, 2, Equal(4), 1'000, "S"},
        LinkCase{"own_as_many", kOwn, 4, Equal(4), 1'000, "S"},
        LinkCase{"own_unequal", kOwn, 4, {0.75, 0.25}, 3'000, "n 0.750 S, server 0"},
        // S (1 + (n-2) / s): one server carries n-1 times S, n of them what a ring's ranks do.
        LinkCase{"beside_one", kBeside, 4, Equal(1), 3'000, "(1 + (n-2)/s) S"},
        LinkCase{"beside_two", kBeside, 4, Equal(2), 2'000, "(1 + (n-2)/s) S"},
        LinkCase{"beside_all", kBeside, 4, Equal(4), 1'500, "2(n-1)/n S"},
        LinkCase{"beside_eight", kBeside, 8, Equal(8), 1'750, "2(n-1)/n S"},
        LinkCase{"beside_two_workers", kBeside, 2, Equal(2), 1'000, "2(n-1)/n S"},
        LinkCase{"beside_the_only_worker", kBeside, 1, Equal(1), 0, "2(n-1)/n S"},
        LinkCase{"beside_unequal", kBeside, 4, {0.25, 0.75}, 2'500, "(1 + (n-2) 0.750) S, host 1"},
        LinkCase{"one_host", kOneHost, 4, Equal(2), 4'000, "n S"},
        LinkCase{"two_a_host", kTwoAHost, 4, Equal(4), 2'000, "n 2 S / s"},
        LinkCase{"two_a_host_odd", kTwoAHost, 3, Equal(5), 1'200, "n 2 S / s"},
        LinkCase{
            "two_a_host_unequal", kTwoAHost, 4, {0.1, 0.1, 0.7, 0.1}, 3'200, "n 0.800 S, host 1"}),
    [](const auto& test) { return std::string(test.param.name); });

// A server's share of a worker's bytes goes to the worker beside it too, over no link.
TEST(CountLinksTest, WhatStaysOnAHostCrossesNoLink) {
  const synthetic::Shape shape = {.variant = "ps_sync", .servers = 2};  // 4 workers
  RunConfig config = synthetic::Config(shape);
  const auto run = [&](Ps::Hosts hosts) {
    config.mutable_variant()->mutable_ps()->set_hosts(hosts);
    return MergeRun(config, synthetic::ReaderOf(synthetic::FilesOf(shape)));
  };
  constexpr double kS = synthetic::kGradientBytes;
  auto result = Aggregate({run(Ps::COLOCATED)}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->busiest().node(), "host 0");
  EXPECT_DOUBLE_EQ(result->busiest().formula(), 2 * kS);
  // A worker's S and a server's 2 S, without S / 2 of each.
  EXPECT_DOUBLE_EQ(result->busiest().bytes_per_step(), 2 * kS);
  EXPECT_EQ(result->label(), "Parameter server, sync, 2 servers, beside workers");
  result = Aggregate({run(Ps::SHARED)}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->busiest().node(), "host 0");
  EXPECT_DOUBLE_EQ(result->busiest().bytes_per_step(), 4 * kS);
  EXPECT_DOUBLE_EQ(result->busiest().formula(), 4 * kS);
  EXPECT_EQ(result->label(), "Parameter server, sync, 2 servers, on shared hosts");
  result = Aggregate({run(Ps::OWN)}, nullptr);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->busiest().node(), "server 0");
  EXPECT_DOUBLE_EQ(result->busiest().bytes_per_step(), 2 * kS);
  // What each process sends is the same wherever it is.
  EXPECT_DOUBLE_EQ(result->bytes().tx_per_worker_step(), kS);
}

TEST(CountLinksTest, HostsHoldEveryProcessOnce) {
  const std::vector<Host> hosts = HostsOf(kTwoAHost, 2, 3);
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  EXPECT_THAT(names, ElementsAre("host 0", "host 1", "worker 0", "worker 1"));
  EXPECT_THAT(hosts[0].servers, ElementsAre(0, 1));
  EXPECT_THAT(hosts[1].servers, ElementsAre(2));
}

// The model predicts by the busiest link, whatever hosts there are.
TEST(CountLinksTest, ThePredictionFollowsTheHosts) {
  PredictionInput input = {.way = {.mode = "ps_sync",
                                   .workers = 4,
                                   .servers = 4,
                                   .gradient_bytes = 4e6,
                                   .hosts = kBeside},
                           .alpha_ns = 0,
                           .beta_ns_per_byte = 1,
                           .gamma_ns_per_byte = 0};
  auto predicted = PredictExchange(input);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_DOUBLE_EQ(predicted->exchange_us, 2 * 1.5 * 4'000);
  EXPECT_THAT(predicted->formula, HasSubstr("2 (2(n-1)/n S) beta"));
  input.way.hosts = {};
  predicted = PredictExchange(input);
  EXPECT_DOUBLE_EQ(predicted->exchange_us, 2 * 4'000);
  EXPECT_THAT(predicted->formula, HasSubstr("2 max(1, n/s) S beta"));
}

}  // namespace
}  // namespace lockstep
