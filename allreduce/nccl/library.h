// library.h: NCCL behind engine/library.h. Every call of NCCL is non-blocking: ours asks whether it
// is through and hears NCCL's asynchronous errors while it waits, and so ends in time. Data of the
// host are staged through the GPU's memory; parts of unequal length are padded to equal ones there.
// Who gives up aborts its communicator, which ends the kernels, before it returns.
// Errors: engine/library.h, api.h, device.h, roster.h. Threads: one at a time; Cancel from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/engine/library.h"
#include "allreduce/nccl/api.h"
#include "allreduce/nccl/device.h"
#include "allreduce/nccl/wire.h"
#include "base/clock.h"

namespace lockstep::nccl {

using MakeDevice = std::function<std::unique_ptr<Device>()>;

class NcclLibrary final : public EngineLibrary {
 public:
  NcclLibrary(const LibrarySetup& setup, MakeDevice make_device);
  ~NcclLibrary() override;
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;

  std::string Version() const override;
  bool AsksWhileWaiting() const override { return true; }
  absl::Status CheckHere(int ranks) override;
  absl::Status Prepare(std::string* address) override;
  absl::Status Connect(const std::vector<std::string>& addresses,
                       const KeepWaiting& keep_waiting) override;
  // Set for the process, by NCCL_ALGO.
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
  // Which data a rank brings, and which it takes back.
  enum class Share : uint8_t { kNone, kOwnPart, kAll };
  struct Transfer {
    Share in = Share::kAll;
    Share out = Share::kAll;
    bool parts = false;  // of equal length in staging
  };
  // What one wait looks at.
  struct Bound {
    const KeepWaiting& keep_waiting;
    int64_t deadline_ns = 0;
  };
  struct Piece;  // of the data, and where it is in staging

  // start(staging on the device, elements staged of a part or of all, stream)
  using Start = std::function<Result(std::byte* device, size_t count, Stream stream)>;
  absl::Status Call(const LibraryCall& call, const Transfer& transfer, const Wire& wire,
                    const Start& start);
  absl::Status Transact(const LibraryCall& call, const Transfer& transfer, const Wire& wire,
                        const Start& start);
  std::vector<Piece> PiecesOf(const LibraryCall& call, const Transfer& transfer, Share share) const;
  int64_t PartOf(int64_t count, int64_t rank, int64_t* first) const;

  absl::Status LoadHere();
  absl::Status AwaitReady(const Bound& bound, const char* what);
  absl::Status AwaitIdle(const Bound& bound);
  absl::Status Pause(const Bound& bound);
  absl::Status ToStatus(Result result, const char* what) const;
  absl::Status AsyncError(const char* what, bool* ready) const;
  void Abort();
  bool Leave();

  const LibrarySetup setup_;
  const MakeDevice make_device_;
  const MonotonicClock clock_;
  std::optional<Api> api_;
  std::unique_ptr<Device> device_;
  Comm* comm_ = nullptr;
  std::string remarks_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace lockstep::nccl
