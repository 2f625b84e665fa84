#include "allreduce/cuda/runtime.h"

#include <thread>

namespace lockstep::gpu {

Answer AwaitStream(Runtime* runtime, int device, void* stream, std::chrono::milliseconds limit,
                   const std::string& what) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    bool idle = false;
    Answer answer = runtime->Query(device, stream, &idle);
    if (!answer.ok() || idle) return answer;
    if (std::chrono::steady_clock::now() > end) {
      return {Refused::kDevice, what + " on GPU " + std::to_string(device) +
                                    " is not through after " + std::to_string(limit.count()) +
                                    " ms: other work keeps the GPU, or it needs a reset"};
    }
    std::this_thread::yield();
  }
}

}  // namespace lockstep::gpu
