// gang.h: the ranks of one process that make their calls together: the last one that comes launches
// for all, and everyone looks whether it is through. One that gives up stops the kernels and waits
// until they have ended, because they write to its memory. After a failure every call returns it at
// once. Errors: library.h. Thread-safe; one thread a rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/cuda/launch.h"
#include "allreduce/cuda/peer_memory.h"
#include "allreduce/cuda/runtime.h"

namespace lockstep::gpu {

// FailedPrecondition: it can't run here; InvalidArgument; DeadlineExceeded: a rank did not answer;
// Unavailable: the device reports an error.
absl::Status ToStatus(const Answer& answer);

struct GangKernels {
  std::shared_ptr<Runtime> runtime;  // ranks leave in any order, and this goes last
  std::unique_ptr<PeerMemory> staging;
  std::vector<std::unique_ptr<KernelGroup>> groups;
};

struct GangCall {
  int rank = 0;
  size_t group = 0;
  CallSpec spec;
  std::byte* data = nullptr;  // in place; where other processes read it: the rank's staging memory
  int64_t timeout_ms = 0;
};

class Gang {
 public:
  explicit Gang(int members) : members_(members) {}
  // Ends a kernel that still runs; one that does not end keeps the memory that it writes to.
  ~Gang();
  Gang(const Gang&) = delete;
  Gang& operator=(const Gang&) = delete;

  // By one member, once.
  void Open(absl::StatusOr<GangKernels> kernels);
  // nullopt: not yet.
  std::optional<absl::Status> opened();

  // Asked again and again; an error gives up.
  using Pause = std::function<absl::Status()>;
  absl::Status Run(const GangCall& call, const Pause& pause);

  // Where rank r's staging memory is for this process. REQUIRES: opened.
  std::byte* staging(int rank) const {
    return kernels_.staging->arenas()[static_cast<size_t>(rank)];
  }
  // All ranks of the group have said that they are idle.
  void NobodyUsesMemory();

 private:
  absl::StatusOr<int64_t> Arrive(const GangCall& call);
  std::optional<absl::Status> Look(int64_t call);
  absl::Status GiveUp(int64_t call, const absl::Status& why);
  void Launch(const GangCall& call);
  void KeepMemory();

  const int members_;
  std::mutex mutex_;
  bool open_ = false;
  GangKernels kernels_;
  std::vector<std::byte*> data_;  // [rank], of the next call
  int arrived_ = 0;               // for it
  int64_t launched_ = 0;
  int64_t finished_ = 0;
  size_t group_ = 0;  // of the call in flight
  bool in_flight_ = false;
  absl::Status failure_;   // the first
  std::string diagnosis_;  // what the kernels say of it
};

}  // namespace lockstep::gpu
