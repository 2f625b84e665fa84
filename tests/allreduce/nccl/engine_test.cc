// The NCCL engine without NCCL and without a GPU: what a communicator promises, whatever is behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/exact.h"
#include "base/status.h"
#include "tests/allreduce/engine_checks.h"
#include "tests/allreduce/nccl/nccl_group.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Lt;

class NcclTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { ResetSwitches(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclTest, testing::Values(1, 2, 3, 4),
                         [](const auto& param) { return absl::StrCat("n", param.param); });

TEST_P(NcclTest, EveryCollectiveOfEveryDtypeIsRight) {
  NcclGroup group(GetParam());
  group.Connected();
  EXPECT_THAT(group.Run([](int, Communicator& c) { return CheckCollectives(&c); }), Each(IsOk()));
}

}  // namespace
}  // namespace lockstep
