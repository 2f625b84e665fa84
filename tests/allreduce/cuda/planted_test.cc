// The thread sanitizer sees what the kernels' protocol promises: three planted bugs, each a data
// race on the host as it would be on a GPU, are each reported by it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/allreduce/cuda/host_group.h"
#include "tests/allreduce/cuda/kernel_data.h"

namespace lockstep::gpu {
namespace {

#if defined(__SANITIZE_THREAD__)

constexpr int kSanitizerExit = 66;

void RunPlanted(Planted planted) {
  HostGroup group({.kernel = Kernel::kRing, .world_size = 3, .slots = 2, .slot_bytes = 256});
  const KernelData data(3, {.count = 20'000}, 0);
  group.Run({data.call()}, {.threads_per_block = 2, .planted = planted});
  std::exit(0);
}

class PlantedDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(PlantedDeathTest, WithoutABugNothingIsReported) {
  EXPECT_EXIT(RunPlanted(Planted::kNone), testing::ExitedWithCode(0), "");
}

TEST_F(PlantedDeathTest, EachBugIsReported) {
  for (const Planted planted :
       {Planted::kNoBarrier, Planted::kRelaxedPublish, Planted::kNoCredit}) {
    EXPECT_EXIT(RunPlanted(planted), testing::ExitedWithCode(kSanitizerExit), "data race")
        << static_cast<int>(planted);
  }
}

#else

TEST(PlantedDeathTest, EachBugIsReported) { GTEST_SKIP() << "needs the thread sanitizer"; }

#endif

}  // namespace
}  // namespace lockstep::gpu
