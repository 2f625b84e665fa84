// CASES R23: a buffer whose bytes no 32-bit number counts, reduced exactly to its last element.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "allreduce/schedule/generate.h"
#include "tests/allreduce/in_step.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = (int64_t{1} << 31) + 16;

class BeyondTest : public testing::TestWithParam<Algorithm> {};

TEST_P(BeyondTest, TwoToThe31And16BytesAreReducedExactly) {
  const Schedule schedule = *MakeSchedule({.algorithm = GetParam(), .world_size = 2});
  InStep group(schedule, 1);
  std::vector<std::vector<uint8_t>> data(2, std::vector<uint8_t>(static_cast<size_t>(kCount)));
  for (size_t i = 0; i < data[0].size(); ++i) {
    data[0][i] = static_cast<uint8_t>(i % 251);
    data[1][i] = static_cast<uint8_t>(i % 7);
  }
  ExecuteCall call;
  call.count = kCount;
  call.dtype = Dtype::kU8;
  call.tile_bytes = int64_t{1} << 20;
  call.message_bytes_max = int64_t{64} << 20;
  ASSERT_THAT(group.Run(call, {reinterpret_cast<std::byte*>(data[0].data()),
                               reinterpret_cast<std::byte*>(data[1].data())}),
              IsOk());
  for (size_t i = 0; i < data[0].size(); ++i) {
    const auto sum = static_cast<uint8_t>(i % 251 + i % 7);
    ASSERT_EQ(data[0][i], sum) << i;
    ASSERT_EQ(data[1][i], sum) << i;
  }
  EXPECT_GT(group.traffic(0).sent_bytes, kCount);  // counters are as wide
}

std::string AlgorithmName(const testing::TestParamInfo<Algorithm>& info) {
  return NameOf(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, BeyondTest,
                         testing::Values(Algorithm::kRing, Algorithm::kHalvingDoubling,
                                         Algorithm::kDirect, Algorithm::kTree),
                         AlgorithmName);

}  // namespace
}  // namespace lockstep
