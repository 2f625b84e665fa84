// fake_nccl.h: switches of the library that stands in for NCCL in tests. Found by dlsym, because
// the engine loads the same file. Ranks are those of the communicator; -1: none.
#pragma once

#include <atomic>

namespace lockstep {

struct FakeNccl {
  std::atomic<int> init_hangs = -1;         // this rank never gets ready
  std::atomic<int> init_fails = -1;         // this rank's start ends with an error
  std::atomic<int> kernel_hangs = -1;       // this rank's collectives never end
  std::atomic<int> call_blocks = -1;        // this rank's call does not come back
  std::atomic<int> async_error = -1;        // this rank is told of an error while it waits
  std::atomic<bool> leaving_hangs = false;  // ncclCommFinalize never ends
  // How often.
  std::atomic<int> aborts = 0;
  std::atomic<int> destroyed = 0;
  std::atomic<int> inits = 0;
  std::atomic<int> kernels = 0;  // collectives that have begun in a stream
};
// extern "C" FakeNccl* FakeNcclSwitches();

}  // namespace lockstep
