// Which GPU a worker takes, and each thing that is missing in its own words: the shared object that
// drives a GPU is one over host memory here.
#include "worker/gpu/open_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/places.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/status_matchers.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;

std::string Dir() { return BinDir() + "/fake_gpu"; }

GpuPlace With(const std::string& cublas) {
  return {.library_dir = Dir(), .cublas = Dir() + "/" + cublas + "/libcublas.so"};
}

// The machine that the object shows.
class Machine {
 public:
  Machine(const char* gpus, const char* driver)
      : gpus_("LOCKSTEP_TEST_GPUS", gpus), driver_("LOCKSTEP_TEST_DRIVER", driver) {}

 private:
  const ScopedVariable gpus_;
  const ScopedVariable driver_;
};

TEST(OpenDeviceTest, AllIsHere) { EXPECT_THAT(CheckGpus(With("whole"), 4, false), IsOk()); }

TEST(OpenDeviceTest, EachThingThatIsMissingHasItsOwnWords) {
  const auto why = [](const char* gpus, const char* driver) {
    const Machine machine(gpus, driver);
    const absl::Status checked = CheckGpus(With("whole"), 1, false);
    EXPECT_EQ(OpenDevice(With("whole"), 0, false).status(), checked);
    return checked;
  };
  EXPECT_THAT(why("0", "0"), StatusIs(kRefused, "device GPU: no NVIDIA driver on this machine"));
  EXPECT_THAT(
      why("1", "11080"),
      StatusIs(kRefused, "device GPU: the NVIDIA driver is too old: it supports CUDA 11.8"));
  EXPECT_THAT(why("0", "13000"), StatusIs(kRefused, "device GPU: no CUDA device"));
}

TEST(OpenDeviceTest, WithoutTheObjectOrCublasItSaysWhatToInstall) {
  EXPECT_THAT(CheckGpus({.library_dir = "/nowhere", .cublas = ""}, 1, false),
              StatusIs(kRefused, "device GPU is not built here: /nowhere/liblockstep_math.so"));
  EXPECT_THAT(CheckGpus({.library_dir = "/nowhere", .cublas = ""}, 1, false),
              StatusIs(kRefused, "Install the CUDA toolkit"));
  EXPECT_THAT(CheckGpus({.library_dir = Dir(), .cublas = "/nowhere/libcublas.so"}, 1, false),
              StatusIs(kRefused, "device GPU: cublas: the library is not here: /nowhere"));
  EXPECT_THAT(CheckGpus(With("old"), 1, false), StatusIs(kRefused, "older than 12"));
  EXPECT_THAT(CheckGpus(With("lacking"), 1, false), StatusIs(kRefused, "cublasGemmEx"));
}

TEST(OpenDeviceTest, MoreWorkersThanGpusAreRefusedUnlessTheyMayShare) {
  const Machine machine("2", "13000");
  EXPECT_THAT(CheckGpus(With("whole"), 2, false), IsOk());
  EXPECT_THAT(CheckGpus(With("whole"), 3, false), StatusIs(kRefused, "3 workers on 2 GPUs"));
  EXPECT_THAT(CheckGpus(With("whole"), 3, false), StatusIs(kRefused, "share_gpu: true"));
  EXPECT_THAT(CheckGpus(With("whole"), 3, true), IsOk());
}

TEST(OpenDeviceTest, WorkersTakeGpusInTurn) {
  const Machine machine("2", "13000");
  for (int worker = 0; worker < 4; ++worker) {
    const auto opened = OpenDevice(With("whole"), worker, false);
    ASSERT_THAT(opened, IsOk());
    EXPECT_EQ(opened->index, worker % 2);
    EXPECT_EQ(opened->gpu, worker % 2 == 0 ? "Host 0" : "Host 1");
    EXPECT_EQ(opened->library, "cuBLAS 13.1.1");
  }
}

}  // namespace
}  // namespace lockstep
