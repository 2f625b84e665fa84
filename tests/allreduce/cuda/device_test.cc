// Every reason why a GPU can't be used has its own words; none of these cases needs one.
#include "allreduce/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "allreduce/cuda/launch.h"
#include "allreduce/cuda/peer_memory.h"

namespace lockstep::gpu {
namespace {

using testing::HasSubstr;

constexpr int kNoDeviceError = 100;  // cudaErrorNoDevice
constexpr int kOldDriverError = 35;  // cudaErrorInsufficientDriver: without any driver too

TEST(JudgeTest, EachRefusalHasItsOwnMessage) {
  const Answer no_driver = Judge({.driver = 0, .runtime = 13000, .error = kOldDriverError}, 1);
  EXPECT_EQ(no_driver.why, Refused::kNoDriver);
  EXPECT_THAT(no_driver.message, HasSubstr("no NVIDIA driver"));

  const Answer old = Judge({.driver = 12040, .runtime = 13000, .error = kOldDriverError}, 1);
  EXPECT_EQ(old.why, Refused::kDriverTooOld);
  EXPECT_THAT(old.message, HasSubstr("supports CUDA 12.4, this program needs 13.0"));

  const Answer none = Judge({.driver = 13000, .runtime = 13000, .error = kNoDeviceError}, 1);
  EXPECT_EQ(none.why, Refused::kNoDevice);
  EXPECT_THAT(none.message, HasSubstr("no CUDA device"));

  const Answer few = Judge({.driver = 13000, .runtime = 13000, .error = 0, .devices = 2}, 4);
  EXPECT_EQ(few.why, Refused::kNoDevice);
  EXPECT_THAT(few.message, HasSubstr("4 GPUs are needed, there are 2"));

  EXPECT_TRUE(Judge({.driver = 13010, .runtime = 13000, .error = 0, .devices = 2}, 2).ok());
}

TEST(CudaRuntimeTest, RefusesAsTheDriverDoes) {
  const std::unique_ptr<Runtime> runtime = MakeCudaRuntime();
  const Answer here = CheckDevices(runtime.get(), 1);
  if (here.ok()) GTEST_SKIP() << "there is a GPU here";
  std::unique_ptr<PeerMemory> memory;
  EXPECT_EQ(PeerMemory::OnOneDevice(runtime.get(), 0, 4, 4096, &memory).message, here.message);
  const std::vector<int> devices = {0};
  EXPECT_EQ(PeerMemory::OnDevices(runtime.get(), devices, 4096, &memory).message, here.message);
  std::string handle;
  EXPECT_EQ(PeerMemory::OfProcess(runtime.get(), {}, 4096, &memory, &handle).message, here.message);
  EXPECT_EQ(memory, nullptr);
}

}  // namespace
}  // namespace lockstep::gpu
