// gpu_check over host memory and threads of the host.
#include <memory>

#include "experiments/gpu_check/run.h"
#include "tests/allreduce/gpu/host_runtime.h"

int main(int argc, char** argv) {
  const std::shared_ptr<lockstep::gpu::Runtime> runtime = lockstep::gpu::MakeHostRuntime();
  return lockstep::gpu::GpuCheckMain(runtime.get(), argc, argv);
}
