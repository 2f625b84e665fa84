#include "allreduce/nccl/library.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allreduce/nccl/roster.h"
#include "base/status.h"

namespace lockstep::nccl {
namespace {

// Leaving needs the others, who may be gone: then the communicator is aborted instead.
constexpr int64_t kLeaveMs = 2'000;
// An aborted kernel ends when it looks at NCCL's flag, which it does all the time.
constexpr int64_t kAbortMs = 2'000;

constexpr char kOwnChoice[] = "default";

}  // namespace

struct NcclLibrary::Piece {
  int64_t first = 0;  // element of the call's data
  int64_t count = 0;
  int64_t staged = 0;  // element of staging
};

NcclLibrary::NcclLibrary(const LibrarySetup& setup, MakeDevice make_device)
    : setup_(setup), make_device_(std::move(make_device)) {}

NcclLibrary::~NcclLibrary() {
  if (comm_ != nullptr && !Leave()) Abort();
  if (device_ == nullptr) return;
  const KeepWaiting by_time;
  const Bound bound{by_time, clock_.NowNs() + kAbortMs * kNsPerMs};
  cancelled_ = false;
  // A kernel that does not end still writes: its memory stays, the process's end will free it.
  if (!AwaitIdle(bound).ok()) static_cast<void>(device_.release());
}

std::string NcclLibrary::Version() const {
  if (!api_.has_value()) return "NCCL";
  return absl::StrCat("NCCL ", VersionText(api_->version), " (", api_->path, ")",
                      remarks_.empty() ? "" : ", ", remarks_);
}

absl::Status NcclLibrary::LoadHere() {
  if (!api_.has_value()) {
    ASSIGN_OR_RETURN(api_, LoadApi(setup_.nccl.library));
  }
  if (device_ == nullptr) device_ = make_device_();
  return absl::OkStatus();
}

absl::Status NcclLibrary::CheckHere(int ranks) {
  RETURN_IF_ERROR(LoadHere());
  ASSIGN_OR_RETURN(const DeviceState state, device_->Look());
  return CheckRanksFit(state, ranks, setup_.nccl.share_gpu);
}

absl::Status NcclLibrary::Prepare(std::string* address) {
  RETURN_IF_ERROR(LoadHere());
  RETURN_IF_ERROR(CheckRequired(setup_.nccl.variables, setup_.nccl.required));
  RosterRow row;
  row.version = api_->version;
  row.variables = setup_.nccl.variables;
  ASSIGN_OR_RETURN(row.device, device_->Look());
  if (setup_.rank == 0) {
    RETURN_IF_ERROR(ToStatus(api_->get_unique_id(&row.id), "ncclGetUniqueId"));
  }
  ASSIGN_OR_RETURN(*address, EncodeRow(row));
  return absl::OkStatus();
}

absl::Status NcclLibrary::Connect(const std::vector<std::string>& addresses,
                                  const KeepWaiting& keep_waiting) {
  std::vector<RosterRow> rows;
  for (const std::string& address : addresses) {
    ASSIGN_OR_RETURN(RosterRow row, DecodeRow(address));
    rows.push_back(std::move(row));
  }
  RETURN_IF_ERROR(CheckAlike(rows));
  ASSIGN_OR_RETURN(const std::vector<int> seats, SeatRanks(rows, setup_.nccl.share_gpu));
  remarks_ = RemarksOn(rows, seats);
  RETURN_IF_ERROR(device_->Open(seats[static_cast<size_t>(setup_.rank)]));
  RETURN_IF_ERROR(device_->Stream().status());  // NCCL takes the calling thread's GPU
  Config config;
  config.blocking = 0;
  constexpr char kWhat[] = "ncclCommInitRankConfig";
  const Bound bound{keep_waiting, clock_.NowNs() + setup_.connect_timeout_ms * kNsPerMs};
  absl::Status status = ToStatus(
      api_->comm_init_rank_config(&comm_, setup_.world_size, rows[0].id, setup_.rank, &config),
      kWhat);
  if (status.ok()) status = AwaitReady(bound, kWhat);
  if (!status.ok()) Abort();
  return status;
}

std::vector<std::string> NcclLibrary::Algorithms() const { return {kOwnChoice}; }

absl::Status NcclLibrary::UseAlgorithm(const std::string& name) {
  if (name == kOwnChoice) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("nccl: no algorithm '", name,
                   "': NCCL takes it from the environment of the process, NCCL_ALGO"));
}

absl::Status NcclLibrary::AllReduce(const LibraryCall& call) {
  const Wire wire = WireOf(call.dtype, call.op);
  return Call(call, {}, wire, [&](std::byte* data, size_t count, Stream stream) {
    return api_->all_reduce(data, data, count, wire.type, wire.op, comm_, stream);
  });
}

absl::Status NcclLibrary::Reduce(const LibraryCall& call) {
  const Wire wire = WireOf(call.dtype, call.op);
  const Share out = setup_.rank == call.root ? Share::kAll : Share::kNone;
  return Call(call, {.in = Share::kAll, .out = out}, wire,
              [&](std::byte* data, size_t count, Stream stream) {
                return api_->reduce(data, data, count, wire.type, wire.op, call.root, comm_,
                                    stream);
              });
}

absl::Status NcclLibrary::Broadcast(const LibraryCall& call) {
  const Wire wire = WireOf(call.dtype, ReduceOp::kSum);
  const bool root = setup_.rank == call.root;
  const Transfer transfer{.in = root ? Share::kAll : Share::kNone,
                          .out = root ? Share::kNone : Share::kAll};
  return Call(call, transfer, wire, [&](std::byte* data, size_t count, Stream stream) {
    return api_->broadcast(data, data, count, wire.type, call.root, comm_, stream);
  });
}

absl::Status NcclLibrary::ReduceScatter(const LibraryCall& call) {
  const Wire wire = WireOf(call.dtype, call.op);
  const Transfer transfer{.in = Share::kAll, .out = Share::kOwnPart, .parts = true};
  return Call(call, transfer, wire, [&](std::byte* data, size_t count, Stream stream) {
    std::byte* const own = data + setup_.rank * static_cast<int64_t>(count) * wire.element_bytes;
    return api_->reduce_scatter(data, own, count, wire.type, wire.op, comm_, stream);
  });
}

absl::Status NcclLibrary::AllGather(const LibraryCall& call) {
  const Wire wire = WireOf(call.dtype, ReduceOp::kSum);
  const Transfer transfer{.in = Share::kOwnPart, .out = Share::kAll, .parts = true};
  return Call(call, transfer, wire, [&](std::byte* data, size_t count, Stream stream) {
    const std::byte* const own =
        data + setup_.rank * static_cast<int64_t>(count) * wire.element_bytes;
    return api_->all_gather(own, data, count, wire.type, comm_, stream);
  });
}

absl::Status NcclLibrary::Settle() {
  uint8_t nothing = 0;
  LibraryCall call;
  call.data = &nothing;
  call.count = 1;
  call.dtype = Dtype::kU8;
  call.timeout_ms = setup_.connect_timeout_ms;
  return AllReduce(call);
}

std::unique_ptr<EngineLibrary> NcclLibrary::Group(const LibrarySetup& setup,
                                                  const std::vector<int>& /*ranks*/) {
  return std::make_unique<NcclLibrary>(setup, make_device_);  // a communicator of its own
}

absl::Status NcclLibrary::Call(const LibraryCall& call, const Transfer& transfer, const Wire& wire,
                               const Start& start) {
  if (comm_ == nullptr) return absl::UnavailableError("nccl: the communicator has failed before");
  absl::Status status = Transact(call, transfer, wire, start);
  if (!status.ok()) Abort();
  return status;
}

// First element and length of a part: as PartOf (communicator.h) cuts them.
int64_t NcclLibrary::PartOf(int64_t count, int64_t rank, int64_t* first) const {
  const int64_t n = setup_.world_size;
  *first = rank * (count / n) + std::min(rank, count % n);
  return count / n + (rank < count % n ? 1 : 0);
}

std::vector<NcclLibrary::Piece> NcclLibrary::PiecesOf(const LibraryCall& call,
                                                      const Transfer& transfer, Share share) const {
  if (share == Share::kNone) return {};
  if (!transfer.parts) return {{.first = 0, .count = call.count, .staged = 0}};
  const int64_t n = setup_.world_size;
  const int64_t part = (call.count + n - 1) / n;
  std::vector<Piece> pieces;
  for (int64_t rank = 0; rank < n; ++rank) {
    if (share == Share::kOwnPart && rank != setup_.rank) continue;
    Piece piece;
    piece.count = PartOf(call.count, rank, &piece.first);
    piece.staged = rank * part;
    if (piece.count > 0) pieces.push_back(piece);
  }
  return pieces;
}

absl::Status NcclLibrary::Transact(const LibraryCall& call, const Transfer& transfer,
                                   const Wire& wire, const Start& start) {
  const Bound bound{call.keep_waiting, clock_.NowNs() + call.timeout_ms * kNsPerMs};
  const int64_t n = setup_.world_size;
  const int64_t count = transfer.parts ? (call.count + n - 1) / n : call.count;  // of NCCL's call
  const int64_t bytes = count * (transfer.parts ? n : 1) * wire.element_bytes;
  ASSIGN_OR_RETURN(const StagingMemory staging, device_->Reserve(bytes));
  auto* const data = static_cast<std::byte*>(call.data);
  WireElements elements{.dtype = call.dtype, .op = wire.keys ? call.op : ReduceOp::kSum};
  for (const Piece& piece : PiecesOf(call, transfer, transfer.in)) {
    elements.count = piece.count;
    ToWire(elements, data + piece.first * SizeOf(call.dtype),
           staging.host + piece.staged * wire.element_bytes);
    if (transfer.in == Share::kAll) continue;
    RETURN_IF_ERROR(
        device_->CopyIn(piece.staged * wire.element_bytes, piece.count * wire.element_bytes));
  }
  // In one copy, with what pads the parts: it is summed, too, and nobody looks at it.
  if (transfer.in == Share::kAll) RETURN_IF_ERROR(device_->CopyIn(0, bytes));
  ASSIGN_OR_RETURN(void* const stream, device_->Stream());
  RETURN_IF_ERROR(
      ToStatus(start(staging.device, static_cast<size_t>(count), stream), "collective"));
  RETURN_IF_ERROR(AwaitReady(bound, "collective"));
  for (const Piece& piece : PiecesOf(call, transfer, transfer.out)) {
    RETURN_IF_ERROR(
        device_->CopyOut(piece.staged * wire.element_bytes, piece.count * wire.element_bytes));
  }
  RETURN_IF_ERROR(AwaitIdle(bound));
  for (const Piece& piece : PiecesOf(call, transfer, transfer.out)) {
    elements.count = piece.count;
    FromWire(elements, staging.host + piece.staged * wire.element_bytes,
             data + piece.first * SizeOf(call.dtype));
  }
  return absl::OkStatus();
}

// Started, or failed: a non-blocking communicator goes on by itself after the call.
absl::Status NcclLibrary::AwaitReady(const Bound& bound, const char* what) {
  while (true) {
    bool ready = false;
    RETURN_IF_ERROR(AsyncError(what, &ready));
    if (ready) return absl::OkStatus();
    RETURN_IF_ERROR(Pause(bound));
  }
}

// A kernel whose peer is gone never ends; NCCL says why.
absl::Status NcclLibrary::AwaitIdle(const Bound& bound) {
  while (true) {
    ASSIGN_OR_RETURN(const bool idle, device_->Idle());
    if (idle) return absl::OkStatus();
    bool ready = false;
    if (comm_ != nullptr) RETURN_IF_ERROR(AsyncError("collective", &ready));
    RETURN_IF_ERROR(Pause(bound));
  }
}

absl::Status NcclLibrary::Pause(const Bound& bound) {
  if (cancelled_) return absl::CancelledError("nccl: the call was cancelled");
  if (bound.keep_waiting) return bound.keep_waiting();
  if (clock_.NowNs() >= bound.deadline_ns) {
    return absl::DeadlineExceededError("nccl: the call was not through in time");
  }
  sched_yield();
  return absl::OkStatus();
}

absl::Status NcclLibrary::AsyncError(const char* what, bool* ready) const {
  Result state = kSuccess;
  RETURN_IF_ERROR(ToStatus(api_->comm_get_async_error(comm_, &state), "ncclCommGetAsyncError"));
  *ready = state != kInProgress;
  return ToStatus(state, what);
}

absl::Status NcclLibrary::ToStatus(Result result, const char* what) const {
  if (result == kSuccess || result == kInProgress) return absl::OkStatus();
  const char* const detail = api_->get_last_error(comm_);  // of the thread: null is allowed
  const std::string text =
      absl::StrCat("nccl: rank ", setup_.rank, ", ", what, ": ", api_->get_error_string(result),
                   detail == nullptr || *detail == '\0' ? "" : absl::StrCat(" (", detail, ")"));
  switch (result) {
    case kInvalidArgument:
    case kInvalidUsage:
      return absl::FailedPreconditionError(text);
    case kInternalError:
      return absl::InternalError(text);
    default:
      return absl::UnavailableError(text);
  }
}

void NcclLibrary::Abort() {
  if (comm_ == nullptr) return;
  // Its result tells nothing that could still be acted on: the group is dead either way.
  static_cast<void>(api_->comm_abort(comm_));
  comm_ = nullptr;
}

// False: the others did not leave with us.
bool NcclLibrary::Leave() {
  const KeepWaiting by_time;
  const int64_t leave_ms = std::min(kLeaveMs, setup_.connect_timeout_ms);
  const Bound bound{by_time, clock_.NowNs() + leave_ms * kNsPerMs};
  constexpr char kWhat[] = "ncclCommFinalize";
  absl::Status status = ToStatus(api_->comm_finalize(comm_), kWhat);
  if (status.ok()) status = AwaitReady(bound, kWhat);
  if (!status.ok()) return false;
  const bool destroyed = api_->comm_destroy(comm_) == kSuccess;
  if (destroyed) comm_ = nullptr;
  return destroyed;
}

}  // namespace lockstep::nccl
