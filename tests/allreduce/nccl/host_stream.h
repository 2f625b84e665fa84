// host_stream.h: a cudaStream_t of the tests: work runs in order on a thread of its own, as on a
// GPU. Shared between the device over host memory and the library that stands in for NCCL, which
// are two shared objects: a struct and a function pointer. Thread-safe.
#pragma once

namespace lockstep {

struct HostStream {
  // Calls run(context) once all that came before is through.
  void (*enqueue)(HostStream* stream, void (*run)(void* context), void* context) = nullptr;
};

}  // namespace lockstep
