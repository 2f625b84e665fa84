#include "worker/gradient_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/worker/cluster.h"
#include "worker/sync/addition_order.h"

namespace lockstep {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct FiniteCase {
  std::string name;
  size_t element = 0;  // of the arena
  float value = 0;
  std::string message;
};
class FiniteTest : public testing::TestWithParam<FiniteCase> {};
INSTANTIATE_TEST_SUITE_P(
    Cases, FiniteTest,
    testing::Values(
        FiniteCase{"FirstElement", 0, kNan, "the gradient of t0 is not finite (nan at element 0)"},
        FiniteCase{"TensorStart", 20, kInf, "the gradient of t2 is not finite (inf at element 0)"},
        FiniteCase{"Middle", 32, -kInf, "the gradient of t2 is not finite (-inf at element 12)"},
        FiniteCase{"Last", 49, kNan, "the gradient of t3 is not finite (nan at element 9)"}),
    [](const auto& test) { return test.param.name; });

TEST_P(FiniteTest, NamesStepTensorElementAndWorker) {
  const std::vector<NamedTensor> tensors = Tensors({20, 0, 20, 10});
  std::vector<float> gradients(50, 1.0F);
  gradients[GetParam().element] = GetParam().value;
  int refused = 0;
  for (const Bucket& bucket : BucketsOf(tensors, 120)) {  // {t1, t2, t3} and {t0}
    const absl::Status status = CheckFinite({.step = 7, .worker = 2}, tensors, bucket, gradients);
    if (status.ok()) continue;
    ++refused;
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, "step 7: " + GetParam().message));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, " on worker 2; "));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, "learning_rate"));
  }
  EXPECT_EQ(refused, 1);
}

TEST(FiniteGradientsTest, FiniteOnesAndNonePass) {
  const std::vector<NamedTensor> tensors = Tensors({0, 3, 0});
  const std::vector<float> gradients = {1, -std::numeric_limits<float>::max(), 0};
  for (const Bucket& bucket : BucketsOf(tensors, 4)) {
    EXPECT_THAT(CheckFinite({}, tensors, bucket, gradients), IsOk());
  }
  EXPECT_THAT(CheckFinite({}, {}, {}, {}), IsOk());
}

// EXACT's second line, on every rank: here the value that f16 can't hold, which no worker's own
// check sees.
TEST(FiniteGradientsTest, AnExactSumThatIsNotFiniteStopsEveryRank) {
  const MonotonicClock clock;
  const Abort abort;
  ClusterOptions options;
  options.exact = true;
  options.wire_dtype = Dtype::kF16;
  options.tensors = {5, 5};
  options.gradient = [](int64_t step, int rank, int64_t i, float /*parameter*/) {
    return step == 2 && rank == 1 && i == 7 ? 1e6F : 1.0F;
  };
  auto links = MakeInProcessLinks({.world_size = options.n}, Limits{}, clock, abort);
  std::vector<Trained> results(links.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < links.size(); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] =
          RunRank(options, std::move(links[rank]), static_cast<int>(rank), clock, abort);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Trained& result : results) {
    EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kDataLoss,
                                        "step 2: the gradient of t1 is not finite in f16"));
  }
}

TEST(AdditionOrderTextTest, OneLineABucketAndCutWithAFingerprint) {
  const std::vector<Bucket> buckets = BucketsOf(Tensors({5, 3}), 4);
  const auto order = [](int64_t count) { return absl::StrCat("order of ", count); };
  EXPECT_EQ(AdditionOrderText(buckets, order), "bucket 0: order of 3\nbucket 1: order of 5");
  // Two that differ only behind the cut must not look equal.
  const auto longer = [](const std::string& end) {
    return [end](int64_t /*count*/) { return std::string(kAdditionOrderBytesMax, 'x') + end; };
  };
  const std::string one = AdditionOrderText(buckets, longer("1"));
  EXPECT_NE(one, AdditionOrderText(buckets, longer("2")));
  EXPECT_LT(one.size(), kAdditionOrderBytesMax + 100);
}

}  // namespace
}  // namespace lockstep
