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

TEST(PeerMemoryTest, RefusesAsTheDriverDoes) {
  const Answer here = CheckDevices(1);
  if (here.ok()) GTEST_SKIP() << "there is a GPU here";
  std::unique_ptr<PeerMemory> memory;
  EXPECT_EQ(PeerMemory::OnOneDevice(0, 4, 4096, &memory).message, here.message);
  const std::vector<int> devices = {0};
  EXPECT_EQ(PeerMemory::OnDevices(devices, 4096, &memory).message, here.message);
  EXPECT_EQ(memory, nullptr);
}

// A rank that has no device must not leave the others waiting for its handle.
TEST(PeerMemoryTest, ARankWithoutDeviceTakesPartInTheExchange) {
  if (CheckDevices(1).ok()) GTEST_SKIP() << "there is a GPU here";
  bool exchanged = false;
  std::unique_ptr<PeerMemory> memory;
  const Answer answer = PeerMemory::OfProcess(
      0, 2, 0, 4096,
      [&](const std::string& own) {
        exchanged = true;
        return std::vector<std::string>{own, own};
      },
      &memory);
  EXPECT_FALSE(answer.ok());
  EXPECT_TRUE(exchanged);
}

TEST(KernelGroupTest, RefusesWhatNoDeviceCould) {
  std::unique_ptr<KernelGroup> group;
  const Answer one_slot = KernelGroup::Make({.kernel = Kernel::kRing, .world_size = 2, .slots = 1},
                                            {}, nullptr, &group);
  EXPECT_EQ(one_slot.why, Refused::kInvalid);
  EXPECT_THAT(one_slot.message, HasSubstr("ring: 1 slots, at least 2"));
  const Answer threads = KernelGroup::Make({.kernel = Kernel::kRing, .world_size = 2},
                                           {.threads = 100}, nullptr, &group);
  EXPECT_THAT(threads.message, HasSubstr("a multiple of 32"));
}

}  // namespace
}  // namespace lockstep::gpu
