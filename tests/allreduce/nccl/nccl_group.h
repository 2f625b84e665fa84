// nccl_group.h: n ranks of the NCCL engine, a thread each, over a TCP control mesh: the engine as
// it is, with a library of ours for NCCL and host memory for GPUs. Switches are reset by each
// group.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allreduce/engine.h"
#include "base/abort.h"
#include "base/check.h"
#include "base/clock.h"
#include "tests/allreduce/group.h"
#include "tests/allreduce/nccl/fake_nccl.h"
#include "tests/allreduce/nccl/host_device.h"
#include "tests/support/places.h"

namespace lockstep {

inline std::string FakeDir() { return BinDir() + "/fake_nccl"; }
inline std::string FakeLibrary(const std::string& kind) {
  return absl::StrCat(FakeDir(), "/", kind, "/libnccl.so.2");
}

template <typename Function>
Function* FunctionOf(const std::string& file, const char* symbol) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != nullptr) << dlerror();
  void* const function = dlsym(handle, symbol);
  CHECK(function != nullptr) << file << " has no " << symbol;
  return reinterpret_cast<Function*>(function);
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

class NcclGroup {
 public:
  // set(rank, options): what this rank's process would have of its own.
  using Set = std::function<void(int rank, EngineOptions* options)>;

  explicit NcclGroup(int n, int64_t sync_timeout_ms = 10'000) : n_(n) {
    limits_ = TestLimits(sync_timeout_ms);
    limits_.connect_timeout_ms = 500;  // bounds leaving, too
    communicators_.resize(static_cast<size_t>(n));
  }

  // What making the communicator said to each rank.
  std::vector<absl::Status> Connect(const Set& set = {}) {
    std::vector<absl::Status> statuses(static_cast<size_t>(n_));
    std::vector<std::unique_ptr<Link>> links = ConnectTcpLinks(n_, 1, limits_, clock_, abort_);
    OnEachRank(n_, [&](int rank) {
      EngineOptions options;
      options.engine = Engine::kNccl;
      options.library_dir = FakeDir();
      options.host = "127.0.0.1";
      options.limits = limits_;
      options.nccl.library = FakeLibrary("whole");
      if (set) set(rank, &options);
      absl::StatusOr<std::unique_ptr<Communicator>> made = MakeEngineCommunicator(
          options, std::move(links[static_cast<size_t>(rank)]), clock_, abort_);
      statuses[static_cast<size_t>(rank)] = made.status();
      if (made.ok()) communicators_[static_cast<size_t>(rank)] = *std::move(made);
    });
    return statuses;
  }
  // All are there.
  NcclGroup& Connected() {
    for (const absl::Status& status : Connect()) CHECK(status.ok()) << status;
    return *this;
  }

  template <typename Body>
  std::vector<absl::Status> Run(const Body& body) {
    std::vector<absl::Status> statuses(static_cast<size_t>(n_));
    OnEachRank(n_, [&](int rank) {
      statuses[static_cast<size_t>(rank)] = body(rank, *communicators_[static_cast<size_t>(rank)]);
    });
    return statuses;
  }
  // Ends all ranks at once, as their processes would.
  void Destroy() {
    OnEachRank(n_, [&](int rank) { Destroy(rank); });
  }
  void Destroy(int rank) { communicators_[static_cast<size_t>(rank)].reset(); }
  ~NcclGroup() { Destroy(); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const Clock& clock() const { return clock_; }
  Abort& abort() { return abort_; }

 private:
  const int n_;
  Limits limits_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

inline absl::Status SumOnes(Communicator& communicator, int64_t count = 1000) {
  std::vector<float> data(static_cast<size_t>(count), 1.0F);
  return communicator.AllReduce(data.data(), count, Dtype::kF32, ReduceOp::kSum);
}

}  // namespace lockstep
