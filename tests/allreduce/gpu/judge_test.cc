// Every reason why a GPU, or another process's memory on it, can't be used has its own words; and
// no wait for a device is without end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

#include "allreduce/cuda/device.h"
#include "allreduce/cuda/peer_memory.h"
#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {
namespace {

using runtime_error::kCantMap;
using runtime_error::kCantReachPeer;
using runtime_error::kNoDevice;
using runtime_error::kNotSupported;
using runtime_error::kOldDriver;
using runtime_error::kOperatingSystem;
using runtime_error::kStaleHandle;
using runtime_error::kTooManyPeers;
using testing::HasSubstr;

TEST(JudgeTest, EachRefusalHasItsOwnMessage) {
  const Answer no_driver = Judge({.driver = 0, .runtime = 13000, .error = kOldDriver}, 1);
  EXPECT_EQ(no_driver.why, Refused::kNoDriver);
  EXPECT_THAT(no_driver.message, HasSubstr("no NVIDIA driver"));

  const Answer old = Judge({.driver = 12040, .runtime = 13000, .error = kOldDriver}, 1);
  EXPECT_EQ(old.why, Refused::kDriverTooOld);
  EXPECT_THAT(old.message, HasSubstr("supports CUDA 12.4, this program needs 13.0"));

  const Answer none = Judge({.driver = 13000, .runtime = 13000, .error = kNoDevice}, 1);
  EXPECT_EQ(none.why, Refused::kNoDevice);
  EXPECT_THAT(none.message, HasSubstr("no CUDA device"));

  const Answer few = Judge({.driver = 13000, .runtime = 13000, .error = 0, .devices = 2}, 4);
  EXPECT_EQ(few.why, Refused::kNoDevice);
  EXPECT_THAT(few.message, HasSubstr("4 GPUs are needed, there are 2"));

  EXPECT_TRUE(Judge({.driver = 13010, .runtime = 13000, .error = 0, .devices = 2}, 2).ok());
}

// Once a driver of 13.0 was refused for a program of 13.1, which it runs.
TEST(JudgeTest, ADriverRunsEveryMinorVersionOfItsMajorOne) {
  EXPECT_TRUE(Judge({.driver = 13000, .runtime = 13010, .error = 0, .devices = 1}, 1).ok());
  EXPECT_EQ(Judge({.driver = 12090, .runtime = 13000, .error = 0, .devices = 1}, 1).why,
            Refused::kDriverTooOld);
  EXPECT_EQ(Judge({.driver = 13000, .runtime = 13010, .error = kOldDriver}, 1).why,
            Refused::kDriverTooOld);
}

TEST(JudgeTest, WhyMemoryIsNotSharedIsToldApart) {
  EXPECT_TRUE(JudgeSharing(0, "").ok());
  EXPECT_EQ(JudgeSharing(kNotSupported, "opening").why, Refused::kNoSharing);
  EXPECT_EQ(JudgeSharing(kOperatingSystem, "opening").why, Refused::kNoSharing);
  EXPECT_EQ(JudgeSharing(kCantMap, "opening").why, Refused::kNoSharing);
  EXPECT_EQ(JudgeSharing(kCantReachPeer, "opening").why, Refused::kNoPeerAccess);
  EXPECT_EQ(JudgeSharing(kTooManyPeers, "opening").why, Refused::kNoPeerAccess);
  EXPECT_EQ(JudgeSharing(kStaleHandle, "opening").why, Refused::kDevice);
  EXPECT_EQ(JudgeSharing(719, "opening: a fault").message, "opening: a fault");
}

// Streams on which nothing ever ends.
class StuckRuntime final : public Runtime {
 public:
  DriverState State() override { return {}; }
  DeviceInfo Describe(int) override { return {}; }
  Answer Allocate(int, int64_t, std::byte**) override { return {}; }
  void Free(int, std::byte*) override {}
  Answer AllocateHost(int64_t, std::byte**) override { return {}; }
  void FreeHost(std::byte*) override {}
  Answer DeviceOf(int, const void*, int*) override { return {}; }
  Answer EnableAccess(int, int) override { return {}; }
  Answer HandleOf(std::byte*, std::string*) override { return {}; }
  Answer OpenHandle(int, const std::string&, std::byte**) override { return {}; }
  void CloseHandle(int, std::byte*) override {}
  Answer MakeStream(int, void**) override { return {}; }
  void DestroyStream(int, void*) override {}
  Answer Copy(int, void*, void*, const void*, int64_t) override { return {}; }
  Answer Zero(int, void*, std::byte*, int64_t) override { return {}; }
  Answer Query(int, void*, bool* idle) override {
    *idle = false;
    return {};
  }
  Answer MakeEvent(int, void**) override { return {}; }
  void DestroyEvent(int, void*) override {}
  Answer Record(int, void*, void*) override { return {}; }
  Answer Reached(int, void*, bool*) override { return {}; }
  Answer ElapsedUs(int, void*, void*, double*) override { return {}; }
  Answer BlocksThatFit(const KernelLaunch&, int*) override { return {}; }
  Answer Launch(const KernelLaunch&) override { return {}; }
};

TEST(ZeroTest, ADeviceThatDoesNotComeToItIsAnErrorInTime) {
  StuckRuntime runtime;
  std::array<std::byte, 64> memory{};
  const Answer answer = ZeroWithin(&runtime, 2, memory, std::chrono::milliseconds(300));
  EXPECT_EQ(answer.why, Refused::kDevice);
  EXPECT_THAT(answer.message, HasSubstr("zeroing 64 bytes on GPU 2 is not through after 300 ms"));
}

}  // namespace
}  // namespace lockstep::gpu
