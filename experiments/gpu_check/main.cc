// gpu_check: run.h over this machine's GPUs.
#include <memory>

#include "allreduce/cuda/runtime.h"
#include "experiments/gpu_check/run.h"

int main(int argc, char** argv) {
  const std::unique_ptr<lockstep::gpu::Runtime> runtime = lockstep::gpu::MakeCudaRuntime();
  return lockstep::gpu::GpuCheckMain(runtime.get(), argc, argv);
}
