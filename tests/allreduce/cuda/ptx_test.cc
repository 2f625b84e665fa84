// What nvcc makes of the kernels. Data that peers write during a kernel must not be read through
// the cache that is not coherent (ld.global.nc); flags must be acquired and released. Prints
// registers and spills of every kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>
#include <string>

namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class PtxTest : public testing::TestWithParam<const char*> {
 protected:
  std::string Built(const std::string& extension) const {
    return ReadFile(std::string(LOCKSTEP_PTX_DIR "/kernel_") + GetParam() + extension);
  }
};

TEST_P(PtxTest, ReadsNothingThroughTheIncoherentCache) {
  const std::string ptx = Built(".ptx");
  ASSERT_THAT(ptx, testing::HasSubstr(".entry"));
  EXPECT_THAT(ptx, testing::Not(testing::HasSubstr("ld.global.nc")));
  EXPECT_THAT(ptx, testing::Not(testing::HasSubstr("fma.rn.f32")));  // one rounding each
}

TEST_P(PtxTest, FlagsAreAcquiredAndReleased) {
  const std::string ptx = Built(".ptx");
  if (std::string(GetParam()) == "packet") {  // flag and data are one word
    EXPECT_THAT(ptx, testing::HasSubstr("ld.relaxed.sys"));
    EXPECT_THAT(ptx, testing::HasSubstr("st.relaxed.sys"));
    return;
  }
  for (const char* scope : {"sys", "gpu"}) {
    EXPECT_THAT(ptx, testing::HasSubstr(std::string("ld.acquire.") + scope));
    EXPECT_THAT(ptx, testing::HasSubstr(std::string("st.release.") + scope));
  }
}

TEST_P(PtxTest, PrintsRegistersAndSpills) {
  const std::string log = Built(".registers");
  const std::regex entry(
      "(\\d+) bytes stack frame, (\\d+) bytes spill stores[^]*?Used (\\d+) registers");
  int kernels = 0;
  int spilling = 0;
  int registers_max = 0;
  for (auto it = std::sregex_iterator(log.begin(), log.end(), entry); it != std::sregex_iterator();
       ++it) {
    ++kernels;
    if (std::stoi((*it)[2]) > 0) ++spilling;
    registers_max = std::max(registers_max, std::stoi((*it)[3]));
  }
  std::cout << "kernel_" << GetParam() << ": " << kernels << " kernels, at most " << registers_max
            << " registers, " << spilling << " spill\n"
            << log;
  EXPECT_EQ(kernels, 20);        // 5 dtypes x (sum, prod, min, max)
  EXPECT_LE(registers_max, 64);  // two blocks of 512 threads on a multiprocessor
}

INSTANTIATE_TEST_SUITE_P(Kernels, PtxTest,
                         testing::Values("direct", "packet", "pull", "ring", "tree"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
