// gpu_group.h: n ranks of the CUDA engine, a thread each, over a TCP control mesh: the engine as it
// is, over a stand-in for CUDA's runtime. In each of the layouts; where every rank has a process of
// its own, threads play them: nothing is shared between ranks but what a handle opens. Switches are
// reset by each group.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "allreduce/gpu/local_ranks.h"
#include "tests/allreduce/engine_group.h"
#include "tests/allreduce/gpu/host_runtime.h"
#include "tests/support/places.h"

namespace lockstep::gpu {

enum class Where : uint8_t { kOneGpu, kGpus, kProcesses };
inline const char* NameOf(Where where) {
  return where == Where::kOneGpu ? "one_gpu" : where == Where::kGpus ? "gpus" : "processes";
}

inline std::string FakeEngine() { return BinDir() + "/fake_cuda/liblockstep_cuda.so"; }
inline HostCuda& Switches() { return *FunctionOf<HostCuda*()>(FakeEngine(), "LockstepHostCuda")(); }
inline void* AllocateOn(int device, int64_t bytes) {
  return FunctionOf<void*(int, int64_t)>(FakeEngine(), "LockstepHostCudaAllocate")(device, bytes);
}

inline void ResetSwitches() {
  HostCuda& cuda = Switches();
  cuda.devices = 8;
  cuda.driver = 13000;
  cuda.fitting = 264;
  for (std::atomic<int>* which :
       {&cuda.unreachable, &cuda.no_memory_on, &cuda.missing_rank, &cuda.failing_launch,
        &cuda.unknown_on, &cuda.deaf_rank, &cuda.wrong_rank}) {
    *which = -1;
  }
  cuda.sharing_error = 0;
  cuda.launches = 0;
  cuda.handles = 0;
  cuda.asked_for_event = 0;
}

struct GroupPlace {
  Where where = Where::kOneGpu;
  int n = 2;
  std::string algorithm = {};  // by size
  int64_t sync_timeout_ms = 20'000;
  int channels = 2;
};

// Ranks of one process find each other in local_, which outlives them.
struct LocalPlace {
  LocalRanks local_;
};

class GpuGroup : private LocalPlace, public EngineGroup {
 public:
  explicit GpuGroup(const GroupPlace& place)
      : EngineGroup(place.n, place.sync_timeout_ms, place.sync_timeout_ms) {
    options_.engine = Engine::kCuda;
    options_.library_dir = BinDir() + "/fake_cuda";
    options_.cuda.algorithm = place.algorithm;
    options_.cuda.channels = place.channels;
    options_.cuda.share_gpu = place.where == Where::kOneGpu;
    options_.cuda.staging_bytes = int64_t{128} << 10;
    if (place.where != Where::kProcesses) options_.cuda.local = &local_;
  }
};

}  // namespace lockstep::gpu
