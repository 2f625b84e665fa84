// What nvcc makes of a worker's kernels: no atomics, no spills; prints their registers. And the
// real device where there is none: every call says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <variant>

#include "worker/gpu/math_device.h"

namespace lockstep::gpu {
namespace {

std::string Built(const std::string& extension) {
  std::ifstream file(LOCKSTEP_KERNELS + extension);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Sums whose order is the scheduler's would have other bits in each run.
TEST(WorkerKernelsTest, NothingIsAddedAtomically) {
  const std::string ptx = Built(".ptx");
  ASSERT_THAT(ptx, testing::HasSubstr(".entry"));
  EXPECT_FALSE(std::regex_search(ptx, std::regex("\\b(atom|red)\\.")));
}

TEST(WorkerKernelsTest, PrintsRegistersAndHasNoSpills) {
  const std::string log = Built(".registers");
  const std::regex entry("(\\d+) bytes spill stores[^]*?Used (\\d+) registers");
  size_t kernels = 0;
  int registers_max = 0;
  for (auto it = std::sregex_iterator(log.begin(), log.end(), entry); it != std::sregex_iterator();
       ++it) {
    ++kernels;
    EXPECT_EQ((*it)[1], "0");
    registers_max = std::max(registers_max, std::stoi((*it)[2]));
  }
  std::cout << kernels << " kernels, at most " << registers_max << " registers a thread\n";
  EXPECT_EQ(kernels, std::variant_size_v<Work>);
}

TEST(WorkerKernelsTest, WithoutAGpuTheDeviceSaysSo) {
  if (Judge(ReadDriverState(), 1).ok()) GTEST_SKIP() << "there is a GPU";
  const std::unique_ptr<MathDevice> device = MakeCudaMathDevice();
  EXPECT_FALSE(Judge(device->State(), 1).ok());
  EXPECT_THAT(device->Open({}).message, testing::HasSubstr("choosing GPU 0: "));
  std::byte* memory = nullptr;
  EXPECT_THAT(device->Allocate(64, &memory).message, testing::HasSubstr("choosing GPU 0: "));
  EXPECT_THAT(device->AllocateHost(64, &memory).message, testing::HasSubstr("choosing GPU 0: "));
  EXPECT_EQ(memory, nullptr);
}

}  // namespace
}  // namespace lockstep::gpu
