// nccl_group.h: n ranks of the NCCL engine, a thread each, over a TCP control mesh: the engine as
// it is, with a library of ours for NCCL and host memory for GPUs. Switches are reset by each
// group.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/allreduce/engine_group.h"
#include "tests/allreduce/nccl/fake_nccl.h"
#include "tests/allreduce/nccl/host_device.h"
#include "tests/support/places.h"

namespace lockstep {

inline std::string FakeDir() { return BinDir() + "/fake_nccl"; }
inline std::string FakeLibrary(const std::string& kind) {
  return absl::StrCat(FakeDir(), "/", kind, "/libnccl.so.2");
}

inline FakeNccl& Switches() {
  return *FunctionOf<FakeNccl*()>(FakeLibrary("whole"), "FakeNcclSwitches")();
}
inline HostGpus& Gpus() {
  return *FunctionOf<HostGpus*()>(FakeDir() + "/liblockstep_nccl.so", "LockstepHostGpus")();
}

inline void ResetSwitches() {
  FakeNccl& fake = Switches();
  for (std::atomic<int>* rank : {&fake.init_hangs, &fake.init_fails, &fake.kernel_hangs,
                                 &fake.call_blocks, &fake.async_error}) {
    *rank = -1;
  }
  for (std::atomic<int>* count : {&fake.aborts, &fake.destroyed, &fake.inits, &fake.kernels})
    *count = 0;
  fake.leaving_hangs = false;
  Gpus().visible = 8;
}

class NcclGroup : public EngineGroup {
 public:
  explicit NcclGroup(int n, int64_t sync_timeout_ms = 10'000)
      : EngineGroup(n, sync_timeout_ms, /*connect_timeout_ms=*/500) {  // bounds leaving, too
    options_.engine = Engine::kNccl;
    options_.library_dir = FakeDir();
    options_.nccl.library = FakeLibrary("whole");
  }
};

}  // namespace lockstep
