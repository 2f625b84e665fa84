// host_communicator.h: the communicator of our own engine: each call a schedule, run by the
// executor over a link. A group is another such object over the same session, with its ranks
// renamed to the link's; what its errors and logs call a rank is the link's. Errors, threads:
// communicator.h.
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
#include "allreduce/host/call.h"
#include "allreduce/host/memory.h"
#include "allreduce/host/plans.h"
#include "allreduce/host/session.h"
#include "allreduce/host/tuning.h"

namespace lockstep {

class HostCommunicator final : public Communicator {
 public:
  // Of all ranks of `link`. InvalidArgument: options that give no schedule.
  static absl::StatusOr<std::unique_ptr<HostCommunicator>> Make(std::unique_ptr<Link> link,
                                                                const Clock& clock,
                                                                const CommunicatorOptions& options);

  int rank() const override { return plans_.rank(); }
  int world_size() const override { return plans_.world_size(); }
  int contributors() const override { return contributors_; }

  absl::Status AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) override;
  absl::Status Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op, int root) override;
  absl::Status Broadcast(void* data, int64_t count, Dtype dtype, int root) override;
  absl::Status ReduceScatter(void* data, int64_t count, Dtype dtype, ReduceOp op) override;
  absl::Status AllGather(void* data, int64_t count, Dtype dtype) override;
  absl::Status Barrier() override;
  absl::StatusOr<std::span<std::byte>> Allocate(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Group(const std::vector<int>& ranks) override;

  absl::StatusOr<std::optional<LinkCost>> MeasureLink() override;
  std::string AdditionOrder(int64_t count) const override;
  std::string Choice(int64_t bytes) const override;
  void LogMessages(MessageLog* log) override { log_ = log; }
  Traffic traffic() const override;

 private:
  HostCommunicator(std::unique_ptr<HostSession> owned, HostSession* session, Plans plans,
                   uint64_t group, const CommunicatorOptions& options);
  absl::Status CheckOptions();

  // Each needs a Run of its own: the sequence number is taken.
  CallDescription Describe(Operation operation, int64_t count, Dtype dtype,
                           const ScheduleSpec& spec);
  CallDescription DescribePlain(Operation operation, int64_t count);
  absl::Status Run(const CallDescription& call, HostSession::Execute execute);
  absl::Status RunWith(const CallDescription& call, const std::vector<int>& members,
                       HostSession::Execute execute);

  absl::StatusOr<Algorithm> AlgorithmFor(int64_t count, Dtype dtype);
  absl::Status Tune();
  absl::StatusOr<CostModel> MeasureForAll(ExecuteCall execute);
  ScheduleSpec AllReduceSpec(Algorithm algorithm) const;
  ScheduleSpec SpecOf(Collective collective, int channels) const;
  absl::Status Execute(const ScheduleSpec& spec, const ExecuteCall& execute);
  // DIRECT runs in place in memory that all ranks of the link map, where there is such.
  bool InWindow(Algorithm algorithm) const;
  absl::Status Close(ExecuteCall execute);
  absl::Status RefuseSpareServers() const;
  // AVG's division of elements [first, first + count).
  void Average(ReduceOp op, const ExecuteCall& execute, ElementRange range) const;
  absl::StatusOr<std::unique_ptr<HostCommunicator>> MakeGroup(const std::vector<int>& ranks,
                                                              uint64_t fingerprint) const;
  absl::StatusOr<std::vector<int>> MembersOf(const std::vector<int>& ranks) const;
  bool IsWhole() const { return owned_ != nullptr; }

  const std::unique_ptr<HostSession> owned_;  // null in a group
  HostSession* const session_;
  Plans plans_;
  const uint64_t group_;
  const CommunicatorOptions options_;
  Tuning tuning_;
  int contributors_ = 0;
  int64_t next_sequence_ = 0;
  MessageLog* log_ = nullptr;
  Traffic traffic_;  // of a group
  std::vector<AlignedMemory> memory_;
};

}  // namespace lockstep
