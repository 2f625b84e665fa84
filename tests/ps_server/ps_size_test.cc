// CASES R35: a parameter of any size goes to its servers and comes back whole. The large ones are
// of the full tier.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/allreduce/tier.h"
#include "tests/ps_server/cluster.h"

namespace lockstep {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

struct SizeCase {
  const char* name;
  int64_t bytes;
  int32_t servers;
};
void PrintTo(const SizeCase& row, std::ostream* out) { *out << row.name; }
class SizeTest : public testing::TestWithParam<SizeCase> {};

float StartAt(size_t i) { return static_cast<float>(i % 1'000); }
float GradientAt(size_t i) { return static_cast<float>(i % 7 + 1); }

// A rate of 1 on integers: every element is exact, wherever a chunk or a shard was cut.
TEST_P(SizeTest, GoesThereAndBackWhole) {
  const auto count = static_cast<size_t>(GetParam().bytes) / sizeof(float);
  ClusterOptions options;
  options.servers = GetParam().servers;
  options.tensors = {static_cast<int64_t>(count)};
  options.sgd = OptimizerOptions{.learning_rate = 1, .momentum = 0, .divisor = 1};
  Cluster cluster(options);
  auto client = cluster.Connect(0);
  ASSERT_THAT(client, IsOk());
  std::vector<float> gradients(count);
  std::vector<float> start(count);
  for (size_t i = 0; i < count; ++i) {
    start[i] = StartAt(i);
    gradients[i] = GradientAt(i);
  }
  std::vector<float> parameters(count);
  ASSERT_THAT((*client)->Init(start), IsOk());
  ASSERT_THAT((*client)->Pull(0, parameters), IsOk());
  ASSERT_TRUE(SameBits(parameters, start));
  ASSERT_THAT((*client)->Push(1, 0, gradients), IsOk());
  ASSERT_THAT((*client)->Pull(1, parameters), IsOk());
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (parameters[i] != StartAt(i) - GradientAt(i)) ++wrong;
  }
  EXPECT_EQ(wrong, 0U);
}

std::vector<SizeCase> Sizes() {
  if (kFullTier) return {{"64MiB", 64 * kMiB, 1}, {"300MiB", 300 * kMiB, 2}};
  return {{"4MiBButOne", 4 * kMiB - 4, 1}, {"4MiB", 4 * kMiB, 1}, {"5MiB", 5 * kMiB, 2}};
}

INSTANTIATE_TEST_SUITE_P(Rows, SizeTest, testing::ValuesIn(Sizes()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace lockstep
