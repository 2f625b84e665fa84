// library.h: our own kernels behind engine/library.h. Data on the rank's GPU are reduced in place;
// data of the host, and data that other processes read, go through staging memory, in pieces. The
// collectives that only move bytes are sums of words to which all but one rank bring zeros.
// There are kernels for f32, f16, bf16, i32 and i64; u8 travels as i32; f64 is refused.
// Errors: engine/library.h, gang.h, roster.h. Threads: one at a time; Cancel from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/engine/library.h"
#include "allreduce/gpu/gang.h"
#include "allreduce/gpu/roster.h"
#include "allreduce/gpu/staging.h"
#include "base/clock.h"

namespace lockstep::gpu {

class CudaLibrary final : public EngineLibrary {
 public:
  CudaLibrary(const LibrarySetup& setup, std::shared_ptr<Runtime> runtime);
  ~CudaLibrary() override;
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;

  std::string Version() const override;
  bool AsksWhileWaiting() const override { return true; }
  bool Averages() const override { return true; }
  absl::Status CheckHere(int ranks) override;
  absl::Status Prepare(std::string* address) override;
  absl::Status Connect(const std::vector<std::string>& addresses,
                       const KeepWaiting& keep_waiting) override;
  // As the variant asks for; the memory of one is not that of another.
  std::vector<std::string> Algorithms() const override;
  absl::Status UseAlgorithm(const std::string& name) override;

  absl::Status AllReduce(const LibraryCall& call) override;
  absl::Status Reduce(const LibraryCall& call) override;
  absl::Status Broadcast(const LibraryCall& call) override;
  absl::Status ReduceScatter(const LibraryCall& call) override;
  absl::Status AllGather(const LibraryCall& call) override;
  absl::Status Settle() override;
  std::unique_ptr<EngineLibrary> Group(const LibrarySetup& setup,
                                       const std::vector<int>& ranks) override;
  void Cancel() override { cancelled_ = true; }

 private:
  // What one wait looks at.
  struct Bound {
    const KeepWaiting& keep_waiting;
    int64_t deadline_ns = 0;
  };

  absl::Status Reduction(const LibraryCall& call, Range out);
  absl::Status Movement(const LibraryCall& call, Range in);
  Range PartOf(const LibraryCall& call) const;  // this rank's
  absl::Status RunJob(Job job, const LibraryCall& call);
  absl::Status RunPortion(const Job& job, const Portion& portion, const Bound& bound);
  absl::Status Sum(const Job& job, std::byte* data, int64_t bytes, const Bound& bound);

  absl::Status ChooseDevice();
  absl::StatusOr<std::unique_ptr<PeerMemory>> MemoryOf(const std::vector<Row>& rows, size_t index,
                                                       int64_t bytes);
  absl::StatusOr<GangKernels> OpenKernels(const std::vector<Row>& rows);
  absl::Status FillKernels(const std::vector<Row>& rows, GangKernels* kernels);
  absl::Status AwaitIdle(const Bound& bound);
  absl::Status AwaitEvent(void* event, const Bound& bound);
  absl::Status Pause(const Bound& bound);
  size_t GroupFor(int64_t bytes) const;
  int64_t SharedBytes() const;
  bool Leave(const Bound& bound);

  const LibrarySetup setup_;
  const std::shared_ptr<Runtime> runtime_;  // gang.h says why
  const MonotonicClock clock_;
  std::vector<KernelSpec> ways_;  // after Prepare
  int device_ = -1;               // not chosen yet
  // Of a rank that is alone in its process, until it is connected: staging, then each way's.
  std::vector<std::unique_ptr<PeerMemory>> own_memory_;
  GangKernels refused_;  // until this rank is gone
  Layout layout_ = Layout::kProcesses;
  std::shared_ptr<Gang> gang_;  // of all ranks of the process
  std::unique_ptr<Staging> staging_;
  std::string remarks_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace lockstep::gpu
