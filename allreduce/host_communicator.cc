#include "allreduce/host_communicator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/host/crowd.h"
#include "allreduce/host/measure.h"
#include "allreduce/schedule/order.h"
#include "base/check.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kLargePingBytes = int64_t{256} << 10;  // beyond a socket's first window

std::vector<int> AllRanks(int world_size) {
  std::vector<int> ranks(static_cast<size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

int64_t TileBytes(const Limits& limits) { return std::min(limits.chunk_bytes, kTileBytes); }

// Saturates: such a count is refused later, with everybody's description.
int64_t BytesOf(int64_t count, Dtype dtype) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return count > kMax / SizeOf(dtype) ? kMax : std::max<int64_t>(0, count) * SizeOf(dtype);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostCommunicator>> HostCommunicator::Make(
    std::unique_ptr<Link> link, const Clock& clock, const CommunicatorOptions& options) {
  if (options.channels > link->channels()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.channels, " channels asked, the link has ", link->channels()));
  }
  auto session = std::make_unique<HostSession>(std::move(link), clock, options.limits);
  HostSession* const borrowed = session.get();
  Plans plans(AllRanks(borrowed->link().world_size()), borrowed->link().rank());
  std::unique_ptr<HostCommunicator> communicator(
      new HostCommunicator(std::move(session), borrowed, std::move(plans), /*group=*/0, options));
  RETURN_IF_ERROR(communicator->CheckOptions());
  return communicator;
}

HostCommunicator::HostCommunicator(std::unique_ptr<HostSession> owned, HostSession* session,
                                   Plans plans, uint64_t group, const CommunicatorOptions& options)
    : owned_(std::move(owned)),
      session_(session),
      plans_(std::move(plans)),
      group_(group),
      options_(options),
      tuning_(plans_.world_size(), TileBytes(options.limits)) {}

absl::Status HostCommunicator::CheckOptions() {
  const ScheduleSpec spec = AllReduceSpec(options_.algorithm);
  const int link_channels = session_->link().channels();
  if (LinkChannelsOf(spec) > link_channels) {
    return absl::InvalidArgumentError(absl::StrCat(
        NameOf(options_.algorithm), " with ", options_.channels, " channels needs a link with ",
        LinkChannelsOf(spec), ", it has ", link_channels));
  }
  contributors_ = world_size();
  if (options_.algorithm == Algorithm::kAuto) return absl::OkStatus();
  ASSIGN_OR_RETURN(const RankPart* part, plans_.PartOf(spec));
  contributors_ = part->contributors;
  return absl::OkStatus();
}

absl::Status HostCommunicator::AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) {
  ASSIGN_OR_RETURN(const Algorithm algorithm, AlgorithmFor(count, dtype));
  const ScheduleSpec spec = AllReduceSpec(algorithm);
  CallDescription call = Describe(Operation::kAllReduce, count, dtype, spec);
  call.op = op;
  return Run(call, [&](ExecuteCall execute) -> absl::Status {
    execute.data = data;
    if (InWindow(algorithm)) {
      execute.op = op;  // it divides its slice while it has it
      return session_->window()->Run(execute);
    }
    RETURN_IF_ERROR(Execute(spec, execute));
    if (rank() < contributors_) Average(op, execute, {0, count});
    return absl::OkStatus();
  });
}

bool HostCommunicator::InWindow(Algorithm algorithm) const {
  return algorithm == Algorithm::kDirect && IsWhole() && session_->window() != nullptr;
}

absl::Status HostCommunicator::Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op,
                                      int root) {
  ScheduleSpec spec = SpecOf(Collective::kReduce, options_.channels);
  spec.root = root;
  CallDescription call = Describe(Operation::kReduce, count, dtype, spec);
  call.op = op;
  return Run(call, [&](ExecuteCall execute) -> absl::Status {
    RETURN_IF_ERROR(RefuseSpareServers());
    execute.data = data;
    RETURN_IF_ERROR(Execute(spec, execute));
    if (rank() == root) Average(op, execute, {0, count});
    return Close(execute);
  });
}

absl::Status HostCommunicator::Broadcast(void* data, int64_t count, Dtype dtype, int root) {
  ScheduleSpec spec = SpecOf(Collective::kBroadcast, options_.channels);
  spec.root = root;
  return Run(Describe(Operation::kBroadcast, count, dtype, spec),
             [&](ExecuteCall execute) -> absl::Status {
               execute.data = data;
               RETURN_IF_ERROR(Execute(spec, execute));
               return Close(execute);
             });
}

absl::Status HostCommunicator::ReduceScatter(void* data, int64_t count, Dtype dtype, ReduceOp op) {
  // One channel: with more, the chunks of a rank would lie apart.
  const ScheduleSpec spec = SpecOf(Collective::kReduceScatter, /*channels=*/1);
  CallDescription call = Describe(Operation::kReduceScatter, count, dtype, spec);
  call.op = op;
  return Run(call, [&](ExecuteCall execute) -> absl::Status {
    RETURN_IF_ERROR(RefuseSpareServers());
    execute.data = data;
    RETURN_IF_ERROR(Execute(spec, execute));
    Average(op, execute, PartOf(count, world_size(), rank()));
    return absl::OkStatus();
  });
}

absl::Status HostCommunicator::AllGather(void* data, int64_t count, Dtype dtype) {
  const ScheduleSpec spec = SpecOf(Collective::kAllGather, /*channels=*/1);  // likewise
  return Run(Describe(Operation::kAllGather, count, dtype, spec), [&](ExecuteCall execute) {
    execute.data = data;
    return Execute(spec, execute);
  });
}

absl::Status HostCommunicator::Barrier() {
  return Run(DescribePlain(Operation::kBarrier, 0),
             [&](const ExecuteCall& execute) { return Close(execute); });
}

absl::StatusOr<std::span<std::byte>> HostCommunicator::Allocate(int64_t bytes) {
  std::span<std::byte> memory;
  RETURN_IF_ERROR(Run(DescribePlain(Operation::kAllocate, bytes),
                      [&](const ExecuteCall& execute) -> absl::Status {
                        if (InWindow(Algorithm::kDirect)) {
                          ASSIGN_OR_RETURN(memory, session_->window()->Allocate(execute));
                          return absl::OkStatus();
                        }
                        ASSIGN_OR_RETURN(AlignedMemory made, AlignedMemory::Make(bytes));
                        memory = memory_.emplace_back(std::move(made)).bytes();
                        return Close(execute);
                      }));
  return memory;
}

absl::StatusOr<std::unique_ptr<Communicator>> HostCommunicator::Group(
    const std::vector<int>& ranks) {
  CallDescription call = DescribePlain(Operation::kGroup, static_cast<int64_t>(ranks.size()));
  call.list = FingerprintOfRanks(ranks);
  std::unique_ptr<HostCommunicator> group;
  RETURN_IF_ERROR(Run(call, [&](const ExecuteCall& execute) -> absl::Status {
    ASSIGN_OR_RETURN(group, MakeGroup(ranks, FingerprintOfGroup(call)));
    return Close(execute);
  }));
  return group;
}

// Null on ranks outside.
absl::StatusOr<std::unique_ptr<HostCommunicator>> HostCommunicator::MakeGroup(
    const std::vector<int>& ranks, uint64_t fingerprint) const {
  ASSIGN_OR_RETURN(std::vector<int> members, MembersOf(ranks));
  const auto self = std::find(ranks.begin(), ranks.end(), rank());
  // Ranks outside check the options as rank 0 would, so that a refusal is everybody's.
  const auto place = self == ranks.end() ? 0 : static_cast<int>(self - ranks.begin());
  CommunicatorOptions options = options_;
  options.group_size = 0;  // the whole's need not divide the group
  std::unique_ptr<HostCommunicator> group(new HostCommunicator(
      nullptr, session_, Plans(std::move(members), place), fingerprint, options));
  RETURN_IF_ERROR(group->CheckOptions());
  if (tuning_.cost().has_value()) group->tuning_.Learn(*tuning_.cost());
  if (self == ranks.end()) group.reset();
  return group;
}

absl::StatusOr<std::vector<int>> HostCommunicator::MembersOf(const std::vector<int>& ranks) const {
  std::vector<int> members;
  for (const int r : ranks) {
    if (r < 0 || r >= world_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("group: ", r, " is no rank of 0..", world_size() - 1));
    }
    if (std::count(ranks.begin(), ranks.end(), r) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("group: rank ", r, " is named twice"));
    }
    members.push_back(plans_.members()[static_cast<size_t>(r)]);
  }
  if (members.empty()) return absl::InvalidArgumentError("group: of no ranks");
  return members;
}

absl::StatusOr<std::optional<LinkCost>> HostCommunicator::MeasureLink() {
  const int64_t large_bytes = std::min(kLargePingBytes, options_.limits.chunk_bytes);
  const CallDescription call = DescribePlain(Operation::kPingPong, large_bytes);
  std::optional<LinkCost> cost;
  if (world_size() == 1) return cost;
  const std::vector<int> pair(plans_.members().begin(), plans_.members().begin() + 2);
  RETURN_IF_ERROR(RunWith(call, pair, [&](const ExecuteCall& execute) -> absl::Status {
    if (rank() > 1) return absl::OkStatus();
    ASSIGN_OR_RETURN(cost, MeasureLinkCost({session_, pair, rank()}, execute));
    return absl::OkStatus();
  }));
  if (rank() != 0) cost.reset();
  return cost;
}

std::string HostCommunicator::AdditionOrder(int64_t count) const {
  Algorithm algorithm = options_.algorithm;
  if (algorithm == Algorithm::kAuto && InWindow(Algorithm::kDirect)) algorithm = Algorithm::kDirect;
  if (algorithm == Algorithm::kAuto) {
    if (!tuning_.cost().has_value()) return "";
    algorithm = tuning_.Choose(BytesOf(count, Dtype::kF32)).algorithm();
  }
  const absl::StatusOr<Schedule> schedule = MakeSchedule(AllReduceSpec(algorithm));
  CHECK(schedule.ok()) << schedule.status();  // its own part was made from the same spec
  return lockstep::AdditionOrder(*schedule, count);
}

std::string HostCommunicator::Choice(int64_t bytes) const {
  if (options_.algorithm != Algorithm::kAuto) {
    return absl::StrCat(NameOf(options_.algorithm), ": asked for");
  }
  if (world_size() == 1) return "auto: one rank alone, nothing to choose";
  if (InWindow(Algorithm::kDirect)) {
    return "auto: direct, since the ranks share memory: in place, every byte is read and written "
           "once";
  }
  return tuning_.Why(std::max<int64_t>(0, bytes));
}

Traffic HostCommunicator::traffic() const {
  return IsWhole() ? session_->link().traffic() : traffic_;
}

CallDescription HostCommunicator::Describe(Operation operation, int64_t count, Dtype dtype,
                                           const ScheduleSpec& spec) {
  CallDescription call;
  call.sequence = next_sequence_++;
  call.count = count;
  call.tile_bytes = TileBytes(options_.limits);
  call.group = group_;
  if (HasRoot(operation)) call.root = spec.root;
  call.channels = spec.channels;
  call.servers = spec.servers;
  call.group_size = spec.group_size;
  call.operation = operation;
  call.dtype = dtype;
  call.algorithm = spec.algorithm;
  call.placement = spec.placement;
  return call;
}

// Of a call whose data, if any, are not the caller's.
CallDescription HostCommunicator::DescribePlain(Operation operation, int64_t count) {
  CallDescription call =
      Describe(operation, count, Dtype::kU8, SpecOf(Collective::kBarrier, /*channels=*/1));
  call.tile_bytes = options_.limits.chunk_bytes;  // a measured message is one tile
  return call;
}

absl::Status HostCommunicator::Run(const CallDescription& call, HostSession::Execute execute) {
  return RunWith(call, plans_.members(), execute);
}

absl::Status HostCommunicator::RunWith(const CallDescription& call, const std::vector<int>& members,
                                       HostSession::Execute execute) {
  const Traffic before = session_->link().traffic();
  session_->executor().LogMessages(log_);
  absl::Status status = session_->Run(call, members, execute);
  traffic_ += session_->link().traffic() - before;
  return status;
}

absl::StatusOr<Algorithm> HostCommunicator::AlgorithmFor(int64_t count, Dtype dtype) {
  if (options_.algorithm != Algorithm::kAuto) return options_.algorithm;
  if (world_size() == 1) return Algorithm::kRing;  // none moves anything
  if (InWindow(Algorithm::kDirect)) return Algorithm::kDirect;
  if (!tuning_.cost().has_value()) RETURN_IF_ERROR(Tune());
  return tuning_.For(BytesOf(count, dtype));
}

absl::Status HostCommunicator::Tune() {
  const int64_t large_bytes = std::min(kLargePingBytes, options_.limits.chunk_bytes);
  CostModel cost;
  RETURN_IF_ERROR(Run(DescribePlain(Operation::kTune, large_bytes),
                      [&](const ExecuteCall& execute) -> absl::Status {
                        ASSIGN_OR_RETURN(cost, MeasureForAll(execute));
                        return absl::OkStatus();
                      }));
  tuning_.Learn(cost);
  return absl::OkStatus();
}

// Rank 0's numbers are everybody's, so that all choose alike.
absl::StatusOr<CostModel> HostCommunicator::MeasureForAll(ExecuteCall execute) {
  CostModel cost;
  if (rank() < 2) {
    ASSIGN_OR_RETURN(cost, MeasureCostModel({session_, plans_.members(), rank()}, execute));
  }
  ASSIGN_OR_RETURN(cost, MeasureCrowd({session_, plans_.members(), rank()}, execute, cost));
  std::array<double, 6> numbers = {cost.latency_ns,       cost.overhead_ns,
                                   cost.beta_ns_per_byte, cost.gamma_ns_per_byte,
                                   cost.crowd_message_ns, cost.crowd_ns_per_byte};
  execute.data = numbers.data();
  execute.count = numbers.size();
  execute.dtype = Dtype::kF64;
  RETURN_IF_ERROR(Execute(SpecOf(Collective::kBroadcast, options_.channels), execute));
  RETURN_IF_ERROR(Close(execute));
  return CostModel{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
}

ScheduleSpec HostCommunicator::AllReduceSpec(Algorithm algorithm) const {
  ScheduleSpec spec;
  spec.algorithm = algorithm;
  spec.world_size = world_size();
  spec.channels = options_.channels;
  spec.servers = options_.servers;
  spec.group_size = options_.group_size;
  spec.placement = options_.placement;
  return spec;
}

// By the algorithm that was asked for where the collective has it, else by its usual one.
ScheduleSpec HostCommunicator::SpecOf(Collective collective, int channels) const {
  const std::span<const Algorithm> there_are = AlgorithmsOf(collective);
  const auto asked = std::find(there_are.begin(), there_are.end(), options_.algorithm);
  ScheduleSpec spec;
  spec.collective = collective;
  spec.algorithm = asked == there_are.end() ? there_are.front() : *asked;
  spec.world_size = world_size();
  spec.channels = channels;
  return spec;
}

absl::Status HostCommunicator::Execute(const ScheduleSpec& spec, const ExecuteCall& execute) {
  ASSIGN_OR_RETURN(const RankPart* part, plans_.PartOf(spec));
  return session_->executor().Run(*part, execute);
}

// Some ranks would be through before others have even called. Empty messages end the call on no
// rank before every rank is in it.
absl::Status HostCommunicator::Close(ExecuteCall execute) {
  execute.data = nullptr;
  execute.count = 0;
  return Execute(SpecOf(Collective::kBarrier, /*channels=*/1), execute);
}

absl::Status HostCommunicator::RefuseSpareServers() const {
  if (contributors_ == world_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "ranks ", contributors_, "..", world_size() - 1,
      " only sum and have no part of a result; use all_reduce, or a group of ranks 0..",
      contributors_ - 1));
}

void HostCommunicator::Average(ReduceOp op, const ExecuteCall& execute, ElementRange range) const {
  if (op != ReduceOp::kAvg || range.count == 0) return;
  lockstep::Average(execute.dtype,
                    static_cast<std::byte*>(execute.data) + range.first * SizeOf(execute.dtype),
                    contributors_, range.count);
}

}  // namespace lockstep
