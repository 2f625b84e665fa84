// engine_group.h: n ranks of an engine, a thread each, over a TCP control mesh; and what a library
// that stands in for another one exports. Threads: one, beside the ranks'.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allreduce/engine.h"
#include "base/abort.h"
#include "base/check.h"
#include "base/clock.h"
#include "tests/allreduce/group.h"

namespace lockstep {

template <typename Function>
Function* FunctionOf(const std::string& file, const char* symbol) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != nullptr) << dlerror();
  void* const function = dlsym(handle, symbol);
  CHECK(function != nullptr) << file << " has no " << symbol;
  return reinterpret_cast<Function*>(function);
}

class EngineGroup {
 public:
  // set(rank, options): what this rank's process would have of its own.
  using Set = std::function<void(int rank, EngineOptions* options)>;

  EngineGroup(int n, int64_t sync_timeout_ms, int64_t connect_timeout_ms)
      : n_(n), communicators_(static_cast<size_t>(n)) {
    options_.host = "127.0.0.1";
    options_.limits = TestLimits(sync_timeout_ms);
    options_.limits.connect_timeout_ms = connect_timeout_ms;
  }
  EngineGroup(const EngineGroup&) = delete;
  EngineGroup& operator=(const EngineGroup&) = delete;

  // What making the communicator said to each rank.
  std::vector<absl::Status> Connect(const Set& set = {}) {
    std::vector<absl::Status> statuses(communicators_.size());
    std::vector<std::unique_ptr<Link>> links =
        ConnectTcpLinks(n_, 1, options_.limits, clock_, abort_);
    OnEachRank(n_, [&](int rank) {
      EngineOptions options = options_;
      if (set) set(rank, &options);
      absl::StatusOr<std::unique_ptr<Communicator>> made = MakeEngineCommunicator(
          options, std::move(links[static_cast<size_t>(rank)]), clock_, abort_);
      statuses[static_cast<size_t>(rank)] = made.status();
      if (made.ok()) communicators_[static_cast<size_t>(rank)] = *std::move(made);
    });
    return statuses;
  }
  // All are there.
  EngineGroup& Connected() {
    for (const absl::Status& status : Connect()) CHECK(status.ok()) << status;
    return *this;
  }

  template <typename Body>
  std::vector<absl::Status> Run(const Body& body) {
    std::vector<absl::Status> statuses(communicators_.size());
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

  const Clock& clock() const { return clock_; }
  Abort& abort() { return abort_; }

 protected:
  ~EngineGroup() { Destroy(); }

  EngineOptions options_;  // of each rank

 private:
  const int n_;
  MonotonicClock clock_;
  Abort abort_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

inline absl::Status SumOnes(Communicator& communicator, int64_t count = 1000) {
  std::vector<float> data(static_cast<size_t>(count), 1.0F);
  return communicator.AllReduce(data.data(), count, Dtype::kF32, ReduceOp::kSum);
}

}  // namespace lockstep
