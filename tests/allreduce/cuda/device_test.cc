// CUDA's own runtime where there is no GPU.
#include "allreduce/cuda/device.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "allreduce/cuda/launch.h"
#include "allreduce/cuda/peer_memory.h"

namespace lockstep::gpu {
namespace {

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
