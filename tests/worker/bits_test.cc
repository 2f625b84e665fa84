// What decides bits, over the whole AllReduceSynchronizer: overlap changes none, EXACT makes every
// engine, cut and channel count agree, and every wire dtype keeps the workers equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/schedule/order.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/cluster.h"
#include "worker/sync/addition_order.h"

namespace lockstep {
namespace {

// How gradients travel; all of it may differ between two runs that EXACT makes equal.
struct Way {
  Algorithm algorithm = Algorithm::kRing;
  int servers = 0;
};
const std::vector<Way> kWays = {{Algorithm::kNaive},
                                {Algorithm::kRing},
                                {Algorithm::kTree},
                                {Algorithm::kPsExchange, 1},
                                {Algorithm::kPsExchange, 2}};

ClusterOptions OptionsOf(const Way& way, int n) {
  ClusterOptions options;
  options.n = n;
  options.algorithm = way.algorithm;
  options.servers = way.servers;
  options.divisor = static_cast<float>(n);
  return options;
}

class WorldSizeTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, WorldSizeTest, testing::Values(3, 4, 5),
                         testing::PrintToStringParamName());

TEST_P(WorldSizeTest, ExactGivesOneResultForEveryWayAndCut) {
  std::vector<float> expected;
  for (const Way& way : kWays) {
    for (const int64_t cap_bytes : {int64_t{1} << 20, int64_t{4'200}, int64_t{8}}) {
      for (const int channels : {1, 2}) {
        ClusterOptions options = OptionsOf(way, GetParam());
        options.exact = true;
        options.cap_bytes = cap_bytes;
        options.channels = channels;
        options.chunk_bytes = channels == 1 ? 512 : 4'096;
        const std::vector<Trained> workers = RunCluster(options);
        EXPECT_EQ(workers[0].addition_order, "exact");
        const std::vector<float> parameters = SharedParameters(workers);
        if (expected.empty()) expected = parameters;
        EXPECT_EQ(parameters, expected)
            << NameOf(way.algorithm) << ", " << way.servers << " servers, cap " << cap_bytes << ", "
            << channels << " channels";
      }
    }
  }
}

// Small integers: every sum is exact in any order, so EXACT must give what the plain ring gives,
// the division included.
TEST_P(WorldSizeTest, ExactMeansTheSameMean) {
  ClusterOptions options = OptionsOf({Algorithm::kRing}, GetParam());
  options.gradient = [](int64_t step, int rank, int64_t i, float /*parameter*/) {
    return static_cast<float>((i * 7 + int64_t{3} * rank + step) % 17 - 8);
  };
  const std::vector<float> plain = SharedParameters(RunCluster(options));
  options.exact = true;
  EXPECT_EQ(SharedParameters(RunCluster(options)), plain);
}

TEST_P(WorldSizeTest, OverlapChangesNoBit) {
  for (const Way& way : kWays) {
    ClusterOptions options = OptionsOf(way, GetParam());
    options.cap_bytes = 4'200;
    options.steps = 5;
    const std::vector<float> in_line = SharedParameters(RunCluster(options));
    options.overlap = true;
    const std::vector<Trained> overlapped = RunCluster(options);
    EXPECT_EQ(SharedParameters(overlapped), in_line) << NameOf(way.algorithm);
    EXPECT_EQ(overlapped[0].spans.size(), BucketsOf(Tensors(options.tensors), 4'200).size() + 1);
  }
}

// Without EXACT the ways differ where their texts do, and agree where the texts agree.
TEST_P(WorldSizeTest, EqualAdditionOrdersGiveEqualBits) {
  std::vector<std::pair<std::string, std::vector<float>>> seen;
  for (const Way& way : kWays) {
    const std::vector<Trained> workers = RunCluster(OptionsOf(way, GetParam()));
    const std::vector<float> parameters = SharedParameters(workers);
    EXPECT_THAT(workers[0].addition_order, testing::HasSubstr("bucket 0: "));
    for (const auto& [order, others] : seen) {
      EXPECT_EQ(order == workers[0].addition_order, others == parameters)
          << NameOf(way.algorithm) << ": " << workers[0].addition_order << " against " << order;
    }
    seen.emplace_back(workers[0].addition_order, parameters);
  }
}

// What a synchronous server's record says (worker/sync/factory.cc), since it adds in rank order.
TEST_P(WorldSizeTest, NaiveAddsInTheOrderOfAParameterServer) {
  ClusterOptions options = OptionsOf({Algorithm::kNaive}, GetParam());
  options.cap_bytes = 4'200;
  options.steps = 1;
  const auto rank_order = [](int64_t count) { return RankOrder(GetParam(), count); };
  EXPECT_EQ(RunCluster(options)[0].addition_order,
            AdditionOrderText(BucketsOf(Tensors(options.tensors), 4'200), rank_order));
}

struct WireCase {
  Dtype dtype = Dtype::kF32;
  bool exact = false;
};
class WireTest : public testing::TestWithParam<WireCase> {};
INSTANTIATE_TEST_SUITE_P(Types, WireTest,
                         testing::Values(WireCase{Dtype::kF32, false}, WireCase{Dtype::kF64, false},
                                         WireCase{Dtype::kF16, false},
                                         WireCase{Dtype::kBf16, false}, WireCase{Dtype::kF16, true},
                                         WireCase{Dtype::kBf16, true}),
                         [](const auto& test) {
                           return absl::StrCat(NameOf(test.param.dtype),
                                               test.param.exact ? "Exact" : "");
                         });

TEST_P(WireTest, KeepsWorkersEqualAndNearF32) {
  ClusterOptions options;
  options.divisor = 3;
  options.gradient = [](int64_t step, int rank, int64_t i, float parameter) {
    return WildGradient(step, rank, 3 * i + 1, parameter);  // the moderate ones
  };
  const std::vector<float> plain = SharedParameters(RunCluster(options));
  options.wire_dtype = GetParam().dtype;
  options.exact = GetParam().exact;
  for (const Way& way : kWays) {
    options.algorithm = way.algorithm;
    options.servers = way.servers;
    const std::vector<float> parameters = SharedParameters(RunCluster(options));
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_NEAR(parameters[i], plain[i], 0.01) << "element " << i;
    }
  }
}

// CASES R26: each worker goes on from its own start values, so they stay apart by a constant.
TEST(StartValuesTest, WithoutTheBroadcastWorkersStayApart) {
  ClusterOptions options;
  options.broadcast_start = false;
  options.gradient = [](int64_t step, int rank, int64_t i, float /*parameter*/) {
    return static_cast<float>((i + rank + step) % 5);
  };
  const std::vector<Trained> workers = RunCluster(options);
  for (size_t i = 0; i < workers[0].parameters.size(); ++i) {
    ASSERT_NEAR(workers[1].parameters[i] - workers[0].parameters[i], 1, 1e-4);
    ASSERT_NEAR(workers[2].parameters[i] - workers[0].parameters[i], 2, 1e-4);
  }
}

}  // namespace
}  // namespace lockstep
