#include "experiments/analyse/devices.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

MemberRecord Worker(const std::string& name, const std::string& device, const std::string& gpu,
                    const std::string& library) {
  MemberRecord worker;
  worker.name = name;
  worker.started.set_device(device);
  worker.started.set_math("STRICT");
  worker.started.set_gpu(gpu);
  worker.started.set_math_library(library);
  return worker;
}

TEST(DevicesText, NamesTheOneKindThatAllHave) {
  RunRecord run;
  run.workers = {Worker("worker 0", "CPU", "", "oneDNN"), Worker("worker 1", "CPU", "", "oneDNN")};
  EXPECT_EQ(DevicesText({run, run}), "CPU, math STRICT, oneDNN");
}

TEST(DevicesText, NamesWhoHasWhichWhereTheyDiffer) {
  RunRecord run;
  run.workers = {Worker("worker 0", "GPU", "NVIDIA H200", "cuBLAS 13.0.2"),
                 Worker("worker 1", "CPU", "", "oneDNN"),
                 Worker("worker 2", "GPU", "NVIDIA H200", "cuBLAS 13.0.2")};
  EXPECT_EQ(DevicesText({run}),
            "CPU, math STRICT, oneDNN: worker 1; GPU NVIDIA H200, math STRICT, cuBLAS 13.0.2: "
            "worker 0, worker 2");
}

TEST(DevicesText, OlderRecordsSayNothing) {
  RunRecord run;
  run.workers.resize(2);
  EXPECT_EQ(DevicesText({run}), "");
}

}  // namespace
}  // namespace lockstep
