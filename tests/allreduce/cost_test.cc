// The closed forms against the simulator, which knows nothing of them; the bound against both; and
// the facts of THEORY C.1-C.3 that follow from the forms.
#include "allreduce/schedule/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/simulate.h"
#include "tests/allreduce/tier.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

struct Model {
  const char* name;
  CostModel cost;
};

constexpr Model kModels[] = {
    {"latency", {20'000, 0, 0.01, 0.005}},
    {"bandwidth", {0, 0, 1, 0}},
    {"both", {100, 0, 1, 0.5}},
    {"LogGP", {5'000, 2'000, 0.1, 0.05}},
    {"overhead", {0, 3'000, 0.1, 0.02}},
    {"additions", {2'000, 500, 0.1, 0.2}},
};
constexpr int32_t kWorlds[] = {2, 3, 4, 5, 7, 8, 16, 33};
constexpr int64_t kSizes[] = {0, 33'600, 336'000, 2'100'000, 8'400'000};
constexpr int64_t kHuge = 105'000'000;

struct FormCase {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  Placement placement = Placement::kSpare;
};

std::string NameOf(const FormCase& form) {
  std::string name = absl::StrCat(NameOf(form.algorithm), "_", NameOf(form.collective));
  if (form.algorithm == Algorithm::kPsExchange) {
    absl::StrAppend(&name, "_", NameOf(form.placement));
  }
  return name;
}
void PrintTo(const FormCase& form, std::ostream* out) { *out << NameOf(form); }

std::vector<FormCase> FormCases() {
  std::vector<FormCase> cases;
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : AlgorithmsOf(collective)) {
      cases.push_back({collective, algorithm});
      if (algorithm != Algorithm::kPsExchange) continue;
      cases.push_back({collective, algorithm, Placement::kColocated});
      cases.push_back({collective, algorithm, Placement::kSplit});
    }
  }
  return cases;
}

// The specs of a form for n ranks that have input.
std::vector<ScheduleSpec> SpecsOf(const FormCase& form, int32_t n) {
  ScheduleSpec spec{.collective = form.collective, .algorithm = form.algorithm, .world_size = n};
  if (form.algorithm != Algorithm::kPsExchange) return {spec};
  std::vector<ScheduleSpec> specs;
  spec.placement = form.placement;
  for (const int32_t servers : {1, std::max(1, n / 2), n}) {
    spec.servers = servers;
    spec.world_size = form.placement == Placement::kColocated ? n : n + servers;
    specs.push_back(spec);
  }
  return specs;
}

class ClosedFormTest : public testing::TestWithParam<FormCase> {
 protected:
  void Check(const ScheduleSpec& spec, const Model& model, int64_t bytes) {
    const std::string where = absl::StrCat(spec.world_size, " ranks, ", spec.servers, " servers, ",
                                           bytes, " bytes, ", model.name);
    const auto run = Simulate(spec, {.cost = model.cost, .bytes = bytes});
    ASSERT_THAT(run, IsOk()) << where;
    const double bound_ns = LowerBoundNs(spec, model.cost, bytes);
    EXPECT_GE(run->time_ns, bound_ns * (1 - 1e-9)) << where;
    const auto form = ClosedFormOf(spec, model.cost, bytes);
    if (!form.has_value()) return;
    ++forms_;
    const double tolerance = form->approximate ? 0.10 : 0.01;
    EXPECT_NEAR(form->time_ns, run->time_ns, tolerance * run->time_ns)
        << where << ": " << form->formula;
  }

  int forms_ = 0;
};

TEST_P(ClosedFormTest, IsWhatTheSimulatorSaysAndNoneIsBelowTheBound) {
  int cases = 0;
  for (const int32_t n : kWorlds) {
    for (const ScheduleSpec& spec : SpecsOf(GetParam(), n)) {
      for (const Model& model : kModels) {
        for (const int64_t bytes : kSizes) {
          if (GetParam().collective == Collective::kBarrier && bytes > 0) continue;
          ++cases;
          Check(spec, model, bytes);
        }
        if (!kFullTier || GetParam().collective == Collective::kBarrier) continue;
        ++cases;
        Check(spec, model, kHuge);
      }
    }
  }
  if (GetParam().placement == Placement::kSplit) {
    EXPECT_GT(forms_, cases * 3 / 4);  // those of one tile, and more where waits hide
  } else {
    EXPECT_EQ(forms_, cases);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, ClosedFormTest, testing::ValuesIn(FormCases()),
                         [](const testing::TestParamInfo<FormCase>& test) {
                           return NameOf(test.param);
                         });

double FormNs(const ScheduleSpec& spec, const CostModel& cost, int64_t bytes,
              int64_t tile_bytes = int64_t{1} << 40) {
  const auto form = ClosedFormOf(spec, cost, bytes, tile_bytes);
  EXPECT_TRUE(form.has_value());
  return form.has_value() ? form->time_ns : 0;
}

TEST(CostTest, FormsOfTheTheoryWithTheirWords) {
  const CostModel cost{
      .latency_ns = 900, .overhead_ns = 100, .beta_ns_per_byte = 0.5, .gamma_ns_per_byte = 0.25};
  const auto ring = ClosedFormOf({.world_size = 4}, cost, 8000);
  ASSERT_TRUE(ring.has_value());
  EXPECT_EQ(ring->formula, "2(n-1)*alpha + 2(n-1)/n*S*beta + (n-1)/n*S*gamma");
  EXPECT_DOUBLE_EQ(ring->time_ns, 6 * 1000 + 1.5 * 8000 * 0.5 + 0.75 * 8000 * 0.25);
  EXPECT_FALSE(ring->approximate);
  const auto doubling =
      ClosedFormOf({.algorithm = Algorithm::kRecursiveDoubling, .world_size = 8}, cost, 8000);
  ASSERT_TRUE(doubling.has_value());
  EXPECT_EQ(doubling->formula, "log2(n)*(alpha + S*beta + S*gamma)");
  EXPECT_DOUBLE_EQ(doubling->time_ns, 3 * (1000 + 4000 + 2000));
}

TEST(CostTest, TilesPayAlphaAgainWhereALaneWaits) {
  const CostModel cost{.latency_ns = 1000, .beta_ns_per_byte = 0.5};
  const auto ring = ClosedFormOf({.world_size = 4}, cost, 40'000, 2'500);
  ASSERT_TRUE(ring.has_value());
  EXPECT_THAT(ring->formula, testing::HasSubstr("alpha for each of 4 tiles"));
  EXPECT_DOUBLE_EQ(ring->time_ns, 4 * 6 * 1000 + 1.5 * 40'000 * 0.5);
}

TEST(CostTest, SeveralChannelsAndWhatDoesNotExistHaveNoForm) {
  EXPECT_FALSE(ClosedFormOf({.world_size = 4, .channels = 2}, {}, 100).has_value());
  EXPECT_FALSE(ClosedFormOf({.world_size = 0}, {}, 100).has_value());
  EXPECT_FALSE(ClosedFormOf({.algorithm = Algorithm::kAuto, .world_size = 4}, {}, 1).has_value());
}

TEST(CostTest, OneRankHasNothingToDo) {
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kPsExchange) continue;
    const ScheduleSpec spec{.algorithm = algorithm};
    EXPECT_EQ(FormNs(spec, kModels[3].cost, 1000), 0) << NameOf(algorithm);
    EXPECT_EQ(LowerBoundNs(spec, kModels[3].cost, 1000), 0) << NameOf(algorithm);
  }
}

// With latency alone one message tells everybody; with overhead alone those who know double.
TEST(CostTest, TheBoundIsThatOfLogP) {
  const ScheduleSpec world{.world_size = 33};
  EXPECT_DOUBLE_EQ(LowerBoundNs(world, {.latency_ns = 100}, 0), 100);
  EXPECT_DOUBLE_EQ(LowerBoundNs(world, {.overhead_ns = 100}, 0), 600);
  EXPECT_DOUBLE_EQ(LowerBoundNs({.world_size = 32}, {.overhead_ns = 100}, 0), 500);
  // 1 at 0, 2 at 3, 3 at 4, 4 at 5, 6 at 6 (latency 2, overhead 1).
  EXPECT_DOUBLE_EQ(LowerBoundNs({.world_size = 6}, {.latency_ns = 2, .overhead_ns = 1}, 0), 6);
}

TEST(CostTest, TheBoundCountsBytesAndAdditions) {
  const CostModel wire{.beta_ns_per_byte = 1};
  EXPECT_DOUBLE_EQ(LowerBoundNs({.world_size = 8}, wire, 800), 1400);
  EXPECT_DOUBLE_EQ(LowerBoundNs({.world_size = 8}, {.gamma_ns_per_byte = 1}, 800), 700);
  const auto of = [&](Collective collective) {
    return LowerBoundNs({.collective = collective, .world_size = 8}, wire, 800);
  };
  EXPECT_DOUBLE_EQ(of(Collective::kReduceScatter), 700);
  EXPECT_DOUBLE_EQ(of(Collective::kAllGather), 700);
  EXPECT_DOUBLE_EQ(of(Collective::kBroadcast), 800);
  EXPECT_DOUBLE_EQ(of(Collective::kReduce), 800);
  // Spare servers take bytes off everybody's port, down to a worker's own.
  const auto with = [&](int32_t servers) {
    return LowerBoundNs(
        {.algorithm = Algorithm::kPsExchange, .world_size = 8 + servers, .servers = servers}, wire,
        800);
  };
  EXPECT_DOUBLE_EQ(with(1), 2.0 * 7 / 9 * 800);
  EXPECT_DOUBLE_EQ(with(8), 800);
}

// THEORY C.1: what the ring's latencies cost against a double tree of 2*S*beta, chunks free.
TEST(CostTest, RingMeetsTheDoubleTreeWhereTheTheorySays) {
  struct Row {
    int32_t n;
    double ratio;  // S*beta / alpha
  };
  for (const Row& row : {Row{8, 32}, Row{16, 176}, Row{64, 3'648}, Row{256, 63'232}}) {
    const CostModel cost{.latency_ns = 1000, .beta_ns_per_byte = 0.01};
    const double bytes = row.ratio * 1000 / 0.01;
    const double tree_ns = 2 * std::ceil(std::log2(row.n)) * 1000 + 2 * bytes * 0.01;
    const double ring_ns = FormNs({.world_size = row.n}, cost, static_cast<int64_t>(bytes));
    EXPECT_NEAR(ring_ns / tree_ns, 1, 1e-6) << row.n;
  }
}

// THEORY C.2: many tiles hide the second phase; s = n^2/(2(n-1)) spare servers tie with the ring.
TEST(CostTest, SpareServersTieWithTheRing) {
  const CostModel wire{.beta_ns_per_byte = 1};
  constexpr int64_t kBytes = int64_t{1} << 30;
  for (const int32_t n : {4, 8, 16}) {
    const double ring = FormNs({.world_size = n}, wire, kBytes) / kBytes;
    const auto servers = [&](int32_t s) {
      return FormNs({.algorithm = Algorithm::kPsExchange, .world_size = n + s, .servers = s}, wire,
                    kBytes, int64_t{1} << 18) /
             kBytes;
    };
    const double tie = n * n / (2.0 * (n - 1));
    EXPECT_GT(servers(static_cast<int32_t>(tie)), ring);
    EXPECT_LT(servers(static_cast<int32_t>(tie) + 1), ring);
    EXPECT_NEAR(ring / servers(n), 2.0 * (n - 1) / n, 0.01);
  }
}

// Co-located on all hosts, a server exchange is the two-shot and carries the ring's bytes.
TEST(CostTest, ServersOnAllHostsCostWhatTheRingDoes) {
  const CostModel wire{.beta_ns_per_byte = 1};
  for (const int32_t n : {2, 4, 8, 16}) {
    const ScheduleSpec spec{.algorithm = Algorithm::kPsExchange,
                            .world_size = n,
                            .servers = n,
                            .placement = Placement::kColocated};
    EXPECT_NEAR(FormNs(spec, wire, 16 << 20) / FormNs({.world_size = n}, wire, 16 << 20), 1, 1e-9);
  }
}

}  // namespace
}  // namespace lockstep
