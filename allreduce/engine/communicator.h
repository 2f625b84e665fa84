// communicator.h: another library's collectives under the host engine's call check and failure
// reports: every call is first a barrier over the control link that carries its fingerprint, then
// the library's own call, watched for lost peers, the deadline and the process's abort. A group is
// another such object over the same session. Errors, threads: allreduce/communicator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allreduce/communicator.h"
#include "allreduce/engine.h"
#include "allreduce/engine/cancel_watch.h"
#include "allreduce/engine/library.h"
#include "allreduce/host/call.h"
#include "allreduce/host/memory.h"
#include "allreduce/host/plans.h"
#include "allreduce/host/session.h"

namespace lockstep {

class EngineCommunicator final : public Communicator {
 public:
  // Connects the libraries of all ranks of `session`.
  static absl::StatusOr<std::unique_ptr<Communicator>> Make(const EngineOptions& options,
                                                            std::unique_ptr<HostSession> session,
                                                            const Abort& abort);
  // Where the library ends together: waits for the other ranks, sync_timeout_ms at most, and leaves
  // the library as it is when one does not come.
  ~EngineCommunicator() override;
  EngineCommunicator(const EngineCommunicator&) = delete;
  EngineCommunicator& operator=(const EngineCommunicator&) = delete;

  int rank() const override { return plans_.rank(); }
  int world_size() const override { return plans_.world_size(); }
  int contributors() const override { return plans_.world_size(); }

  absl::Status AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) override;
  absl::Status Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op, int root) override;
  absl::Status Broadcast(void* data, int64_t count, Dtype dtype, int root) override;
  absl::Status ReduceScatter(void* data, int64_t count, Dtype dtype, ReduceOp op) override;
  absl::Status AllGather(void* data, int64_t count, Dtype dtype) override;
  absl::Status Barrier() override;
  absl::Status StartAfter(void* event) override;
  absl::StatusOr<std::span<std::byte>> Allocate(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Group(const std::vector<int>& ranks) override;

  absl::StatusOr<std::optional<LinkCost>> MeasureLink() override { return std::nullopt; }
  std::string AdditionOrder(int64_t /*count*/) const override { return ""; }
  std::string Choice(int64_t bytes) const override;
  void LogMessages(MessageLog* /*log*/) override {}
  Traffic traffic() const override { return session_.link().traffic(); }

 private:
  EngineCommunicator(const EngineOptions& options, std::unique_ptr<HostSession> owned,
                     HostSession* session, Plans plans, uint64_t group, const Abort& abort);

  using LibraryMethod = absl::Status (EngineLibrary::*)(const LibraryCall&);
  CallDescription Describe(Operation operation, int64_t count, Dtype dtype);
  // Every member makes this call, and no other; then `method`, where there is something to do.
  absl::Status Run(const CallDescription& call, void* data, LibraryMethod method);
  // Is an average a sum that we divide?
  bool Divides(ReduceOp op) const { return op == ReduceOp::kAvg && !library_->Averages(); }
  absl::Status Meet(ExecuteCall plan);
  absl::Status Connect(std::unique_ptr<EngineLibrary> library);
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& own, ExecuteCall plan);
  absl::Status CallLibrary(LibraryMethod method, const LibraryCall& call, int64_t deadline_ns);
  LibrarySetup SetupOf(const Plans& plans) const;

  const EngineOptions options_;
  const std::unique_ptr<HostSession> owned_;  // null in a group
  HostSession& session_;
  Plans plans_;
  const uint64_t group_;
  const Abort& abort_;
  int64_t next_sequence_ = 0;
  void* after_ = nullptr;  // of the next call
  std::unique_ptr<EngineLibrary> library_;
  std::optional<CancelWatch> watch_;  // of library_, so it goes first
  std::vector<AlignedMemory> memory_;
};

}  // namespace lockstep
