// gpu_group.h: n ranks of the CUDA engine, a thread each, over a TCP control mesh: the engine as it
// is, over a stand-in for CUDA's runtime. In each of the layouts; where every rank has a process of
// its own, threads play them: nothing is shared between ranks but what a handle opens. Switches are
// reset by each group.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/engine.h"
#include "allreduce/gpu/local_ranks.h"
#include "base/abort.h"
#include "base/check.h"
#include "base/clock.h"
#include "tests/allreduce/gpu/host_runtime.h"
#include "tests/allreduce/group.h"
#include "tests/support/places.h"

namespace lockstep::gpu {

enum class Where : uint8_t { kOneGpu, kGpus, kProcesses };
inline const char* NameOf(Where where) {
  return where == Where::kOneGpu ? "one_gpu" : where == Where::kGpus ? "gpus" : "processes";
}

inline void* SymbolOfFake(const char* symbol) {
  const std::string file = BinDir() + "/fake_cuda/liblockstep_cuda.so";
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != nullptr) << dlerror();
  void* const found = dlsym(handle, symbol);
  CHECK(found != nullptr) << file << " has no " << symbol;
  return found;
}
inline HostCuda& Switches() {
  return *reinterpret_cast<HostCuda* (*)()>(SymbolOfFake("LockstepHostCuda"))();
}
inline void* AllocateOn(int device, int64_t bytes) {
  using Allocate = void*(int, int64_t);
  return reinterpret_cast<Allocate*>(SymbolOfFake("LockstepHostCudaAllocate"))(device, bytes);
}

inline void ResetSwitches() {
  HostCuda& cuda = Switches();
  cuda.devices = 8;
  cuda.driver = 13000;
  cuda.fitting = 264;
  for (std::atomic<int>* which :
       {&cuda.unreachable, &cuda.no_memory_on, &cuda.missing_rank, &cuda.failing_launch}) {
    *which = -1;
  }
  cuda.launches = 0;
}

struct GroupPlace {
  Where where = Where::kOneGpu;
  int n = 2;
  std::string algorithm = {};  // by size
  int64_t sync_timeout_ms = 20'000;
};

class GpuGroup {
 public:
  // set(rank, options): what this rank would have of its own.
  using Set = std::function<void(int rank, EngineOptions* options)>;

  explicit GpuGroup(const GroupPlace& place) : place_(place) {
    limits_ = TestLimits(place.sync_timeout_ms);
    limits_.connect_timeout_ms = place.sync_timeout_ms;
    communicators_.resize(static_cast<size_t>(place.n));
  }

  // What making the communicator said to each rank.
  std::vector<absl::Status> Connect(const Set& set = {}) {
    std::vector<absl::Status> statuses(communicators_.size());
    std::vector<std::unique_ptr<Link>> links =
        ConnectTcpLinks(place_.n, 1, limits_, clock_, abort_);
    OnEachRank(place_.n, [&](int rank) {
      EngineOptions options;
      options.engine = Engine::kCuda;
      options.library_dir = BinDir() + "/fake_cuda";
      options.host = "127.0.0.1";
      options.limits = limits_;
      options.cuda.algorithm = place_.algorithm;
      options.cuda.channels = 2;
      options.cuda.share_gpu = place_.where == Where::kOneGpu;
      options.cuda.staging_bytes = int64_t{128} << 10;
      if (place_.where != Where::kProcesses) options.cuda.local = &local_;
      if (set) set(rank, &options);
      absl::StatusOr<std::unique_ptr<Communicator>> made = MakeEngineCommunicator(
          options, std::move(links[static_cast<size_t>(rank)]), clock_, abort_);
      statuses[static_cast<size_t>(rank)] = made.status();
      if (made.ok()) communicators_[static_cast<size_t>(rank)] = *std::move(made);
    });
    return statuses;
  }
  // All are there.
  GpuGroup& Connected() {
    for (const absl::Status& status : Connect()) CHECK(status.ok()) << status;
    return *this;
  }

  template <typename Body>
  std::vector<absl::Status> Run(const Body& body) {
    std::vector<absl::Status> statuses(communicators_.size());
    OnEachRank(place_.n, [&](int rank) {
      statuses[static_cast<size_t>(rank)] = body(rank, *communicators_[static_cast<size_t>(rank)]);
    });
    return statuses;
  }
  // Ends all ranks at once, as their processes would.
  void Destroy() {
    OnEachRank(place_.n, [&](int rank) { Destroy(rank); });
  }
  void Destroy(int rank) { communicators_[static_cast<size_t>(rank)].reset(); }
  ~GpuGroup() { Destroy(); }
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;

  const Clock& clock() const { return clock_; }
  Abort& abort() { return abort_; }

 private:
  const GroupPlace place_;
  Limits limits_;
  MonotonicClock clock_;
  Abort abort_;
  LocalRanks local_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

inline absl::Status SumOnes(Communicator& communicator, int64_t count = 1000) {
  std::vector<float> data(static_cast<size_t>(count), 1.0F);
  return communicator.AllReduce(data.data(), count, Dtype::kF32, ReduceOp::kSum);
}

}  // namespace lockstep::gpu
