#include "allreduce/gpu/library.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allreduce/gpu/local_ranks.h"
#include "base/status.h"

namespace lockstep::gpu {
namespace {

constexpr int32_t kChannelsMax = 16;  // of a default
// Up to here a message's time is that of its way, and a kernel without slots wins.
constexpr int64_t kPacketBytes = int64_t{64} << 10;
// Leaving waits for the others, who may be gone.
constexpr int64_t kLeaveMs = 2'000;

// All blocks of a launch must be resident at once, and a multiprocessor holds at least one.
int32_t ChannelsThatFit(KernelSpec spec, const CudaPlace& place, int multiprocessors) {
  const bool share = place.local != nullptr && place.share_gpu;  // else a launch has one rank
  spec.channels = 1;
  const int32_t blocks = BlocksPerRank(spec) * (share ? spec.world_size : 1);
  return std::clamp(multiprocessors / blocks, 1, kChannelsMax);
}

std::vector<KernelSpec> WaysOf(const LibrarySetup& setup, int multiprocessors) {
  KernelSpec spec;
  spec.world_size = setup.world_size;
  const std::optional<Kernel> named = KernelNamed(setup.cuda.algorithm);
  spec.kernel = named.value_or(Kernel::kDirect);
  spec.channels = setup.cuda.channels == 0 ? ChannelsThatFit(spec, setup.cuda, multiprocessors)
                                           : setup.cuda.channels;
  if (named.has_value()) return {spec};
  KernelSpec small = spec;
  small.kernel = Kernel::kPacket;
  small.packet_bytes = kPacketBytes;
  return {small, spec};
}

std::string TextOf(const std::vector<KernelSpec>& ways) {
  std::vector<std::string> names;
  names.reserve(ways.size());
  for (const KernelSpec& way : ways) {
    names.push_back(way.packet_bytes == 0
                        ? NameOf(way.kernel)
                        : absl::StrCat(NameOf(way.kernel), " up to ", way.packet_bytes, " B"));
  }
  return absl::StrCat(absl::StrJoin(names, ", then "), ", ", ways[0].channels,
                      ways[0].channels == 1 ? " channel" : " channels");
}

}  // namespace

CudaLibrary::CudaLibrary(const LibrarySetup& setup, std::shared_ptr<Runtime> runtime)
    : setup_(setup), runtime_(std::move(runtime)) {}

CudaLibrary::~CudaLibrary() {
  if (staging_ == nullptr) return;
  cancelled_ = false;
  const KeepWaiting by_time;
  const int64_t leave_ms = std::min(kLeaveMs, setup_.connect_timeout_ms);
  const Bound bound{by_time, clock_.NowNs() + leave_ms * kNsPerMs};
  const bool idle = AwaitIdle(bound).ok();
  if (gang_ != nullptr && layout_ == Layout::kProcesses && idle && Leave(bound)) {
    gang_->NobodyUsesMemory();
  }
  if (!idle) static_cast<void>(staging_.release());  // a copy that does not end still uses it
}

std::string CudaLibrary::Version() const {
  return absl::StrCat("CUDA kernels: ", TextOf(ways_), remarks_.empty() ? "" : "; ", remarks_);
}

absl::Status CudaLibrary::CheckHere(int ranks) {
  const DriverState state = runtime_->State();
  RETURN_IF_ERROR(ToStatus(Judge(state, 1)));
  RETURN_IF_ERROR(CheckRanksFit(state.devices, ranks, setup_.cuda.share_gpu));
  LibrarySetup group = setup_;
  group.world_size = ranks;
  for (const KernelSpec& way : WaysOf(group, runtime_->Describe(0).multiprocessors)) {
    const std::string fault = FaultOf(way);
    if (!fault.empty()) return absl::FailedPreconditionError(absl::StrCat("cuda: ", fault));
  }
  return absl::OkStatus();
}

// By this rank's number alone, because its memory must exist before the others are known.
absl::Status CudaLibrary::ChooseDevice() {
  const DriverState state = runtime_->State();
  RETURN_IF_ERROR(ToStatus(Judge(state, 1)));
  if (device_ >= 0) return absl::OkStatus();  // that of the group around this one
  const bool several = setup_.cuda.local != nullptr;
  device_ = several && setup_.cuda.share_gpu ? 0 : setup_.rank % state.devices;
  return absl::OkStatus();
}

int64_t CudaLibrary::SharedBytes() const {
  return setup_.cuda.staging_bytes + setup_.world_size * kLineBytes;
}

absl::Status CudaLibrary::Prepare(std::string* address) {
  RETURN_IF_ERROR(ChooseDevice());
  const DeviceInfo device = runtime_->Describe(device_);
  ways_ = WaysOf(setup_, device.multiprocessors);
  Row row;
  row.machine = MachineId();
  row.address = device.address;
  row.ways = absl::StrCat(TextOf(ways_), ", ", setup_.cuda.staging_bytes, " B staged");
  row.process = getpid();
  row.device = device_;
  if (setup_.cuda.local != nullptr) {
    row.key = setup_.cuda.local->NewKey();
    ASSIGN_OR_RETURN(*address, EncodeRow(row));
    return absl::OkStatus();
  }
  std::vector<int64_t> sizes = {SharedBytes()};
  for (const KernelSpec& way : ways_) {
    const std::string fault = FaultOf(way);
    if (!fault.empty()) return absl::FailedPreconditionError(absl::StrCat("cuda: ", fault));
    sizes.push_back(ArenaBytes(way));
  }
  for (const int64_t bytes : sizes) {
    RETURN_IF_ERROR(ToStatus(PeerMemory::OfProcess(
        runtime_.get(), {.rank = setup_.rank, .ranks = setup_.world_size, .device = device_}, bytes,
        &own_memory_.emplace_back(), &row.handles.emplace_back())));
  }
  ASSIGN_OR_RETURN(*address, EncodeRow(row));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerMemory>> CudaLibrary::MemoryOf(const std::vector<Row>& rows,
                                                                  size_t index, int64_t bytes) {
  std::unique_ptr<PeerMemory> memory;
  if (layout_ == Layout::kProcesses) {
    std::vector<std::string> handles;
    handles.reserve(rows.size());
    for (const Row& row : rows) handles.push_back(row.handles[index]);
    RETURN_IF_ERROR(ToStatus(own_memory_[index]->OpenPeers(handles)));
    return std::move(own_memory_[index]);
  }
  std::vector<int> devices;
  devices.reserve(rows.size());
  for (const Row& row : rows) devices.push_back(row.device);
  const bool one = std::count(devices.begin(), devices.end(), device_) == setup_.world_size;
  RETURN_IF_ERROR(ToStatus(
      one ? PeerMemory::OnOneDevice(runtime_.get(), device_, setup_.world_size, bytes, &memory)
          : PeerMemory::OnDevices(runtime_.get(), devices, bytes, &memory)));
  return memory;
}

absl::StatusOr<GangKernels> CudaLibrary::OpenKernels(const std::vector<Row>& rows) {
  GangKernels kernels;
  kernels.runtime = runtime_;
  const absl::Status status = FillKernels(rows, &kernels);
  if (status.ok()) return kernels;
  // Others may be about to open this memory, and are to meet their own reason, not its end.
  refused_ = std::move(kernels);
  return status;
}

absl::Status CudaLibrary::FillKernels(const std::vector<Row>& rows, GangKernels* kernels) {
  ASSIGN_OR_RETURN(kernels->staging, MemoryOf(rows, 0, SharedBytes()));
  for (size_t i = 0; i < ways_.size(); ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<PeerMemory> memory,
                     MemoryOf(rows, i + 1, ArenaBytes(ways_[i])));
    RETURN_IF_ERROR(ToStatus(
        KernelGroup::Make(ways_[i], {}, std::move(memory), &kernels->groups.emplace_back())));
  }
  return absl::OkStatus();
}

absl::Status CudaLibrary::Connect(const std::vector<std::string>& addresses,
                                  const KeepWaiting& keep_waiting) {
  std::vector<Row> rows;
  for (const std::string& address : addresses) {
    ASSIGN_OR_RETURN(Row row, DecodeRow(address));
    rows.push_back(std::move(row));
  }
  ASSIGN_OR_RETURN(layout_, LayoutOf(rows, setup_.cuda.share_gpu));
  remarks_ = RemarksOn(rows, layout_);
  ASSIGN_OR_RETURN(staging_, Staging::Make(runtime_.get(), device_, SharedBytes() + kLineBytes));
  if (layout_ == Layout::kProcesses) {
    gang_ = std::make_shared<Gang>(1);
    gang_->Open(OpenKernels(rows));
    return *gang_->opened();
  }
  gang_ = setup_.cuda.local->Join<Gang>(
      rows[0].key, [this] { return std::make_shared<Gang>(setup_.world_size); });
  if (setup_.rank == 0) gang_->Open(OpenKernels(rows));
  const Bound bound{keep_waiting, clock_.NowNs() + setup_.connect_timeout_ms * kNsPerMs};
  while (true) {
    const std::optional<absl::Status> opened = gang_->opened();
    if (opened.has_value()) return *opened;
    RETURN_IF_ERROR(Pause(bound));
  }
}

std::vector<std::string> CudaLibrary::Algorithms() const {
  return {setup_.cuda.algorithm.empty() ? "default" : setup_.cuda.algorithm};
}

absl::Status CudaLibrary::UseAlgorithm(const std::string& name) {
  if (name == Algorithms()[0]) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cuda: this group was made for ", Algorithms()[0], ", not for ", name));
}

absl::Status CudaLibrary::AllReduce(const LibraryCall& call) {
  return Reduction(call, {0, call.count * SizeOf(call.dtype)});
}

absl::Status CudaLibrary::Reduce(const LibraryCall& call) {
  const int64_t bytes = call.count * SizeOf(call.dtype);
  return Reduction(call, {0, setup_.rank == call.root ? bytes : 0});
}

absl::Status CudaLibrary::ReduceScatter(const LibraryCall& call) {
  return Reduction(call, PartOf(call));
}

absl::Status CudaLibrary::Broadcast(const LibraryCall& call) {
  const int64_t bytes = call.count * SizeOf(call.dtype);
  return Movement(call, {0, setup_.rank == call.root ? bytes : 0});
}

absl::Status CudaLibrary::AllGather(const LibraryCall& call) {
  return Movement(call, PartOf(call));
}

absl::Status CudaLibrary::Settle() {
  int32_t nothing = 0;
  LibraryCall call;
  call.data = &nothing;
  call.count = 1;
  call.dtype = Dtype::kI32;
  call.timeout_ms = setup_.connect_timeout_ms;
  return AllReduce(call);
}

std::unique_ptr<EngineLibrary> CudaLibrary::Group(const LibrarySetup& setup,
                                                  const std::vector<int>& /*ranks*/) {
  auto group = std::make_unique<CudaLibrary>(setup, runtime_);
  group->device_ = device_;
  return group;
}

// As PartOf (communicator.h) cuts it, in bytes.
Range CudaLibrary::PartOf(const LibraryCall& call) const {
  const int64_t n = setup_.world_size;
  const int64_t first =
      setup_.rank * (call.count / n) + std::min<int64_t>(setup_.rank, call.count % n);
  const int64_t count = call.count / n + (setup_.rank < call.count % n ? 1 : 0);
  return {first * SizeOf(call.dtype), (first + count) * SizeOf(call.dtype)};
}

absl::Status CudaLibrary::Reduction(const LibraryCall& call, Range out) {
  if (call.dtype == Dtype::kF64) {
    return absl::InvalidArgumentError(
        "cuda: there is no kernel for f64; there are f32, f16, bf16, i32, i64 and u8");
  }
  Job job;
  job.dtype = call.dtype;
  job.op = call.op;
  job.widened = call.dtype == Dtype::kU8;
  if (job.widened) job.dtype = Dtype::kI32;
  job.bytes = call.count * SizeOf(call.dtype);
  job.in = {0, job.bytes};
  job.out = out;
  return RunJob(job, call);
}

absl::Status CudaLibrary::Movement(const LibraryCall& call, Range in) {
  Job job;
  job.bytes = call.count * SizeOf(call.dtype);
  job.in = in;
  job.out = {0, job.bytes};
  return RunJob(job, call);
}

absl::Status CudaLibrary::RunJob(Job job, const LibraryCall& call) {
  if (gang_ == nullptr) return absl::UnavailableError("cuda: the group has failed before");
  job.data = static_cast<std::byte*>(call.data);
  const Bound bound{call.keep_waiting, clock_.NowNs() + call.timeout_ms * kNsPerMs};
  if (call.after != nullptr) RETURN_IF_ERROR(AwaitEvent(call.after, bound));
  int where = Runtime::kHost;
  RETURN_IF_ERROR(ToStatus(runtime_->DeviceOf(device_, call.data, &where)));
  job.on_device = where != Runtime::kHost;
  if (job.on_device && (where != device_ || job.widened)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cuda: rank ", setup_.rank, " has GPU ", device_, ", the data are on GPU ", where,
        job.widened ? ", where u8 is not reduced" : "; give it data of its own GPU"));
  }
  for (int64_t first = 0; first < job.bytes;) {
    const Portion portion = PortionOf(job, first, setup_.cuda.staging_bytes);
    RETURN_IF_ERROR(RunPortion(job, portion, bound));
    first = portion.bytes.end;
  }
  return absl::OkStatus();
}

absl::Status CudaLibrary::RunPortion(const Job& job, const Portion& portion, const Bound& bound) {
  const bool brings_all = job.in.first == 0 && job.in.end == job.bytes &&
                          portion.staged_bytes == portion.bytes.end - portion.bytes.first;
  const bool read_by_others = layout_ == Layout::kProcesses &&
                              ways_[GroupFor(portion.staged_bytes)].kernel == Kernel::kDirect;
  if (job.on_device && brings_all && !read_by_others) {
    return Sum(job, job.data + portion.bytes.first, portion.staged_bytes, bound);
  }
  std::byte* const staging = gang_->staging(setup_.rank);
  RETURN_IF_ERROR(staging_->BringIn(job, portion, staging));
  RETURN_IF_ERROR(AwaitIdle(bound));
  RETURN_IF_ERROR(Sum(job, staging, portion.staged_bytes, bound));
  RETURN_IF_ERROR(staging_->TakeOut(job, portion, staging));
  RETURN_IF_ERROR(AwaitIdle(bound));
  staging_->Deliver(job, portion);
  return absl::OkStatus();
}

size_t CudaLibrary::GroupFor(int64_t bytes) const {
  return ways_[0].packet_bytes > 0 && bytes > ways_[0].packet_bytes ? 1 : 0;
}

absl::Status CudaLibrary::Sum(const Job& job, std::byte* data, int64_t bytes, const Bound& bound) {
  GangCall call;
  call.rank = setup_.rank;
  call.group = GroupFor(bytes);
  call.spec = {.count = bytes / SizeOf(job.dtype), .dtype = job.dtype, .op = job.op};
  call.data = data;
  call.timeout_ms = std::max<int64_t>(1, (bound.deadline_ns - clock_.NowNs()) / kNsPerMs);
  return gang_->Run(call, [&] { return Pause(bound); });
}

absl::Status CudaLibrary::AwaitIdle(const Bound& bound) {
  while (true) {
    ASSIGN_OR_RETURN(const bool idle, staging_->Idle());
    if (idle) return absl::OkStatus();
    RETURN_IF_ERROR(Pause(bound));
  }
}

absl::Status CudaLibrary::AwaitEvent(void* event, const Bound& bound) {
  while (true) {
    bool reached = false;
    RETURN_IF_ERROR(ToStatus(runtime_->Reached(device_, event, &reached)));
    if (reached) return absl::OkStatus();
    RETURN_IF_ERROR(Annotate(Pause(bound), absl::StrCat("cuda: rank ", setup_.rank,
                                                        " waits for what its data come from")));
  }
}

absl::Status CudaLibrary::Pause(const Bound& bound) {
  if (cancelled_) return absl::CancelledError("cuda: the call was cancelled");
  if (bound.keep_waiting) return bound.keep_waiting();
  if (clock_.NowNs() >= bound.deadline_ns) {
    return absl::DeadlineExceededError("cuda: the call was not through in time");
  }
  sched_yield();
  return absl::OkStatus();
}

// A rank that is through may leave while a peer's kernel still writes into its memory. So each says
// in everybody's memory that it is idle, and a rank's own goes when all have said so there. False:
// they have not.
bool CudaLibrary::Leave(const Bound& bound) {
  if (!gang_->opened().value_or(absl::UnavailableError("")).ok()) return false;
  const int64_t lines = setup_.cuda.staging_bytes;
  const int64_t bytes = setup_.world_size * kLineBytes;
  std::byte* const host = staging_->host();
  std::memset(host, 0, static_cast<size_t>(kLineBytes + bytes));
  host[0] = std::byte{1};
  for (int peer = 0; peer < setup_.world_size; ++peer) {
    std::byte* const line = gang_->staging(peer) + lines + setup_.rank * kLineBytes;
    if (!staging_->Copy(line, host, kLineBytes).ok()) return false;
  }
  while (AwaitIdle(bound).ok() && Pause(bound).ok()) {
    int here = 0;
    for (int peer = 0; peer < setup_.world_size; ++peer) {
      if (host[kLineBytes + peer * kLineBytes] != std::byte{0}) ++here;
    }
    if (here == setup_.world_size) return true;
    if (!staging_->Copy(host + kLineBytes, gang_->staging(setup_.rank) + lines, bytes).ok()) break;
  }
  return false;
}

}  // namespace lockstep::gpu
