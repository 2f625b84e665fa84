#include "allreduce/engine/communicator.h"

#include <sched.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/engine/load.h"
#include "base/numeric/fold.h"
#include "base/status.h"

namespace lockstep {
namespace {

// A library that is asked for progress moves its bytes only then. So: yield at first, as the host
// engine does; then sleep a little; a long wait sleeps longer and costs next to no processor time.
constexpr int64_t kYieldNs = 2 * kNsPerMs;
constexpr int64_t kShortSleepNs = 50'000;
constexpr int64_t kLongWaitNs = 200 * kNsPerMs;
constexpr int64_t kLongSleepNs = kNsPerMs;
constexpr int kYieldsPerLook = 64;  // at the control link, which is a system call a peer

// What the control link has heard of the members.
absl::Status PeerError(const Link& link, const std::vector<int>& members) {
  for (const int peer : members) {
    if (!link.peers()[static_cast<size_t>(peer)].report.empty()) {
      return absl::AbortedError(absl::StrCat("rank ", peer, " reports a failure"));
    }
  }
  for (const int peer : members) {
    if (link.peers()[static_cast<size_t>(peer)].lost) {
      return absl::UnavailableError(
          absl::StrCat("rank ", link.rank(), " lost rank ", peer, ": its connection was closed"));
    }
  }
  return absl::OkStatus();
}

// Asked by a library while a call of its is under way.
class Wait {
 public:
  Wait(HostSession* session, const std::vector<int>& members, int64_t deadline_ns)
      : session_(*session),
        members_(members),
        deadline_ns_(deadline_ns),
        start_ns_(session->clock().NowNs()) {}

  absl::Status Ask() {
    const int64_t now_ns = session_.clock().NowNs();
    const int64_t waited_ns = now_ns - start_ns_;
    int64_t until_ns = 0;
    if (waited_ns < kYieldNs) {
      sched_yield();
      if (++yields_ % kYieldsPerLook != 0) return absl::OkStatus();
    } else {
      until_ns = now_ns + (waited_ns < kLongWaitNs ? kShortSleepNs : kLongSleepNs);
    }
    absl::Status heard = session_.link().AwaitReports(std::min(until_ns, deadline_ns_));
    if (heard.ok()) return PeerError(session_.link(), members_);
    if (!absl::IsDeadlineExceeded(heard)) return heard;
    if (now_ns < deadline_ns_) return absl::OkStatus();
    return absl::DeadlineExceededError("the library's call was not through in time");
  }

 private:
  HostSession& session_;
  const std::vector<int>& members_;
  const int64_t deadline_ns_;
  const int64_t start_ns_;
  int yields_ = 0;
};

std::vector<int> AllRanks(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

EngineCommunicator::EngineCommunicator(const EngineOptions& options,
                                       std::unique_ptr<HostSession> owned, HostSession* session,
                                       Plans plans, uint64_t group, const Abort& abort)
    : options_(options),
      owned_(std::move(owned)),
      session_(*session),
      plans_(std::move(plans)),
      group_(group),
      abort_(abort) {}

absl::StatusOr<std::unique_ptr<Communicator>> EngineCommunicator::Make(
    const EngineOptions& options, std::unique_ptr<HostSession> session, const Abort& abort) {
  HostSession* const shared = session.get();
  Plans plans(AllRanks(shared->link().world_size()), shared->link().rank());
  std::unique_ptr<EngineCommunicator> communicator(new EngineCommunicator(
      options, std::move(session), shared, std::move(plans), /*group=*/0, abort));
  // A rank that has no library says so to the others instead of leaving them waiting.
  absl::StatusOr<std::unique_ptr<EngineLibrary>> library =
      LoadEngine(options.engine, options.library_dir, communicator->SetupOf(communicator->plans_));
  absl::Status connected;
  if (library.ok()) {
    connected = communicator->Connect(*std::move(library));
  } else {
    connected = shared->Run(
        communicator->Describe(Operation::kGroup, communicator->world_size(), Dtype::kU8),
        communicator->plans_.members(), [&](const ExecuteCall&) { return library.status(); });
  }
  RETURN_IF_ERROR(connected);
  return communicator;
}

EngineCommunicator::~EngineCommunicator() {
  if (owned_ == nullptr || library_ == nullptr || !library_->EndsTogether()) return;
  if (!Barrier().ok()) library_->Cancel();
}

LibrarySetup EngineCommunicator::SetupOf(const Plans& plans) const {
  return {plans.rank(),  plans.world_size(), options_.host, options_.limits.connect_timeout_ms,
          options_.nccl, options_.cuda};
}

CallDescription EngineCommunicator::Describe(Operation operation, int64_t count, Dtype dtype) {
  CallDescription call;
  call.sequence = next_sequence_++;
  call.count = count;
  call.tile_bytes = options_.limits.chunk_bytes;
  call.group = group_;
  call.operation = operation;
  call.dtype = dtype;
  call.algorithm = Algorithm::kAuto;  // the library's own choice
  return call;
}

absl::Status EngineCommunicator::Meet(ExecuteCall plan) {
  plan.count = 0;
  plan.data = nullptr;
  ASSIGN_OR_RETURN(const RankPart* const barrier,
                   plans_.PartOf({.collective = Collective::kBarrier,
                                  .algorithm = AlgorithmsOf(Collective::kBarrier).front()}));
  return session_.executor().Run(*barrier, plan);
}

absl::Status EngineCommunicator::Run(const CallDescription& call, void* data,
                                     LibraryMethod method) {
  void* const after = std::exchange(after_, nullptr);
  return session_.Run(call, plans_.members(), [&](const ExecuteCall& plan) -> absl::Status {
    RETURN_IF_ERROR(Meet(plan));
    if (call.count == 0 || world_size() == 1) return absl::OkStatus();
    LibraryCall its_call;
    its_call.data = data;
    its_call.count = call.count;
    its_call.dtype = call.dtype;
    its_call.op = library_->Averages() ? call.op : plan.op;
    its_call.root = std::max(call.root, 0);
    its_call.after = after;
    return CallLibrary(method, its_call, plan.deadline_ns);
  });
}

absl::Status EngineCommunicator::CallLibrary(LibraryMethod method, const LibraryCall& call,
                                             int64_t deadline_ns) {
  LibraryCall bounded = call;
  Wait wait(&session_, plans_.members(), deadline_ns);
  bounded.keep_waiting = [&] { return wait.Ask(); };
  const int64_t left_ns = deadline_ns - session_.clock().NowNs();
  bounded.timeout_ms = std::max<int64_t>(1, left_ns / kNsPerMs);
  if (watch_.has_value()) watch_->Begin(deadline_ns);
  absl::Status status = ((*library_).*method)(bounded);
  if (watch_.has_value()) watch_->End();
  if (status.ok() || session_.clock().NowNs() < deadline_ns) return status;
  return absl::DeadlineExceededError(status.message());  // cancelled for that reason
}

absl::Status EngineCommunicator::Connect(std::unique_ptr<EngineLibrary> library) {
  library_ = std::move(library);
  if (options_.engine == Engine::kMpi && options_.mpi_world_size != world_size() && group_ == 0) {
    // Known before MPI is started, which would otherwise start alone.
    return session_.Run(
        Describe(Operation::kGroup, world_size(), Dtype::kU8), plans_.members(),
        [&](const ExecuteCall&) {
          return absl::FailedPreconditionError(
              options_.mpi_world_size == 0
                  ? std::string("engine mpi: this process was not started by "
                                "mpirun; start the ranks with mpirun -n RANKS")
                  : absl::StrCat("engine mpi: mpirun started ", options_.mpi_world_size,
                                 " processes, the group has ", world_size(), " ranks"));
        });
  }
  absl::Status status = session_.Run(
      Describe(Operation::kGroup, world_size(), Dtype::kU8), plans_.members(),
      [&](const ExecuteCall& plan) -> absl::Status {
        std::string address;
        RETURN_IF_ERROR(library_->Prepare(&address));
        ASSIGN_OR_RETURN(const std::vector<std::string> addresses, Exchange(address, plan));
        RETURN_IF_ERROR(Meet(plan));
        Wait wait(&session_, plans_.members(), plan.deadline_ns);
        RETURN_IF_ERROR(library_->Connect(addresses, [&] { return wait.Ask(); }));
        return Meet(plan);  // a rank that failed tells those that did not
      });
  if (status.ok() && !library_->AsksWhileWaiting()) {
    watch_.emplace(abort_, session_.clock(), [library = library_.get()] { library->Cancel(); });
  }
  return status;
}

absl::StatusOr<std::vector<std::string>> EngineCommunicator::Exchange(const std::string& own,
                                                                      ExecuteCall plan) {
  // A table of which each rank knows its own row; the greatest of each byte is the whole table.
  const auto n = static_cast<size_t>(world_size());
  const size_t row = own.size();
  std::string table(n * row, '\0');
  std::copy(own.begin(), own.end(),
            table.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(rank()) * row));
  plan.data = table.data();
  plan.count = static_cast<int64_t>(table.size());
  plan.dtype = Dtype::kU8;
  plan.op = ReduceOp::kMax;
  ASSIGN_OR_RETURN(const RankPart* const ring, plans_.PartOf({.algorithm = Algorithm::kRing}));
  RETURN_IF_ERROR(session_.executor().Run(*ring, plan));
  std::vector<std::string> rows;
  for (size_t rank = 0; rank < n; ++rank) rows.push_back(table.substr(rank * row, row));
  return rows;
}

absl::Status EngineCommunicator::AllReduce(void* data, int64_t count, Dtype dtype, ReduceOp op) {
  CallDescription call = Describe(Operation::kAllReduce, count, dtype);
  call.op = op;
  RETURN_IF_ERROR(Run(call, data, &EngineLibrary::AllReduce));
  if (Divides(op)) Average(dtype, data, world_size(), count);
  return absl::OkStatus();
}

absl::Status EngineCommunicator::Reduce(void* data, int64_t count, Dtype dtype, ReduceOp op,
                                        int root) {
  CallDescription call = Describe(Operation::kReduce, count, dtype);
  call.op = op;
  call.root = root;
  RETURN_IF_ERROR(Run(call, data, &EngineLibrary::Reduce));
  if (Divides(op) && rank() == root) Average(dtype, data, world_size(), count);
  return absl::OkStatus();
}

absl::Status EngineCommunicator::Broadcast(void* data, int64_t count, Dtype dtype, int root) {
  CallDescription call = Describe(Operation::kBroadcast, count, dtype);
  call.root = root;
  return Run(call, data, &EngineLibrary::Broadcast);
}

absl::Status EngineCommunicator::ReduceScatter(void* data, int64_t count, Dtype dtype,
                                               ReduceOp op) {
  CallDescription call = Describe(Operation::kReduceScatter, count, dtype);
  call.op = op;
  RETURN_IF_ERROR(Run(call, data, &EngineLibrary::ReduceScatter));
  if (!Divides(op)) return absl::OkStatus();
  const ElementRange part = PartOf(count, world_size(), rank());
  Average(dtype, static_cast<std::byte*>(data) + part.first * SizeOf(dtype), world_size(),
          part.count);
  return absl::OkStatus();
}

absl::Status EngineCommunicator::AllGather(void* data, int64_t count, Dtype dtype) {
  return Run(Describe(Operation::kAllGather, count, dtype), data, &EngineLibrary::AllGather);
}

absl::Status EngineCommunicator::Barrier() {
  return Run(Describe(Operation::kBarrier, 0, Dtype::kU8), nullptr, nullptr);
}

absl::Status EngineCommunicator::StartAfter(void* event) {
  if (options_.engine != Engine::kCuda) return Communicator::StartAfter(event);
  after_ = event;
  return absl::OkStatus();
}

absl::StatusOr<std::span<std::byte>> EngineCommunicator::Allocate(int64_t bytes) {
  const CallDescription call = Describe(Operation::kAllocate, bytes, Dtype::kU8);
  RETURN_IF_ERROR(
      session_.Run(call, plans_.members(), [&](const ExecuteCall& plan) { return Meet(plan); }));
  ASSIGN_OR_RETURN(AlignedMemory memory, AlignedMemory::Make(bytes));
  memory_.push_back(std::move(memory));
  return memory_.back().bytes();
}

absl::StatusOr<std::unique_ptr<Communicator>> EngineCommunicator::Group(
    const std::vector<int>& ranks) {
  const std::set<int> distinct(ranks.begin(), ranks.end());
  if (distinct.empty() || distinct.size() != ranks.size() || *distinct.begin() < 0 ||
      *distinct.rbegin() >= world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("group: its ranks must be different ones of 0..", world_size() - 1));
  }
  CallDescription call =
      Describe(Operation::kGroup, static_cast<int64_t>(ranks.size()), Dtype::kU8);
  call.list = FingerprintOfRanks(ranks);
  RETURN_IF_ERROR(
      session_.Run(call, plans_.members(), [&](const ExecuteCall& plan) { return Meet(plan); }));
  const auto own = std::find(ranks.begin(), ranks.end(), rank());
  if (own == ranks.end()) return nullptr;
  std::vector<int> members;
  members.reserve(ranks.size());
  for (const int rank : ranks) members.push_back(plans_.members()[static_cast<size_t>(rank)]);
  Plans plans(std::move(members), static_cast<int>(own - ranks.begin()));
  std::unique_ptr<EngineLibrary> library = library_->Group(SetupOf(plans), ranks);
  std::unique_ptr<EngineCommunicator> group(new EngineCommunicator(
      options_, nullptr, &session_, std::move(plans), FingerprintOfGroup(call), abort_));
  RETURN_IF_ERROR(group->Connect(std::move(library)));
  return group;
}

std::string EngineCommunicator::Choice(int64_t /*bytes*/) const {
  return absl::StrCat(library_->Version(), ": its own choice");
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeEngineCommunicator(const EngineOptions& options,
                                                                     std::unique_ptr<Link> control,
                                                                     const Clock& clock,
                                                                     const Abort& abort) {
  return EngineCommunicator::Make(
      options, std::make_unique<HostSession>(std::move(control), clock, options.limits), abort);
}

}  // namespace lockstep
