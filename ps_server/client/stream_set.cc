#include "ps_server/client/stream_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "ps_server/wire/grpc_frame.h"

namespace lockstep {
namespace {

// A wait looks at `abort` this often.
constexpr int64_t kSliceMs = 10;
// gRPC lets go of a cancelled stream in milliseconds; this many slices without any news are a fault
// of it. Slices are counted, not time, so that a process that was frozen or starved isn't blamed.
constexpr int kDrainSlicesMax = 1'000;

}  // namespace

StreamSet::~StreamSet() {
  for (Slot& slot : slots_) retired_.push_back(std::move(slot.stream));
  for (const auto& stream : retired_) stream->Cancel();
  queue_->Shutdown();
  if (!Drain()) {
    // gRPC may still write to these: they are left to it for good.
    for (auto& stream : retired_) static_cast<void>(stream.release());
    static_cast<void>(queue_.release());
  }
  retired_.clear();
  // The caller's memory can't be left to gRPC: once reused, a server could take its bytes for
  // gradients. To end the process is then the only way that keeps the results right.
  int slices = 0;
  while (!lent_->AwaitReturned(kSliceMs)) {
    CHECK(++slices < kDrainSlicesMax) << "gRPC keeps the gradients of a cancelled call";
  }
}

// False: gRPC keeps an operation of a cancelled call.
bool StreamSet::Drain() {
  void* tag = nullptr;
  bool ok = false;
  for (int slices = 0; slices < kDrainSlicesMax;) {
    const auto next = queue_->AsyncNext(&tag, &ok, AfterNs(kSliceMs * kNsPerMs));
    if (next == grpc::CompletionQueue::SHUTDOWN) return true;
    if (next == grpc::CompletionQueue::TIMEOUT) ++slices;
  }
  return false;
}

void StreamSet::Add(const ServerStream::Options& options) {
  slots_.push_back({.options = options, .stream = nullptr, .tries = 0, .reopen_ns = std::nullopt});
  Open(&slots_.back());
}

void StreamSet::Open(Slot* slot) {
  if (slot->stream != nullptr) retired_.push_back(std::move(slot->stream));
  slot->stream = std::make_unique<ServerStream>(slot->options, queue_.get(), lent_);
  ++slot->tries;
  slot->reopen_ns.reset();
}

StreamSet::Wait StreamSet::StartWait(const std::string& operation, const char* limit,
                                     int64_t timeout_ms, int64_t grace_ms) const {
  const int64_t now_ns = clock_.NowNs();
  return {operation, limit, timeout_ms, now_ns, now_ns + (timeout_ms + grace_ms) * kNsPerMs};
}

absl::Status StreamSet::Turn(const Wait& wait, const std::function<Awaited()>& awaited) {
  RETURN_IF_ERROR(failed_);
  const absl::Status aborted = abort_.status();
  if (!aborted.ok()) return Fail(aborted, wait);
  const int64_t now_ns = clock_.NowNs();
  if (now_ns >= wait.deadline_ns) {
    const Awaited missing = awaited();
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("waited ", (now_ns - wait.start_ns) / kNsPerMs, " ms for ", missing.what,
                     " (limits.", wait.limit, " ", wait.timeout_ms, ")"));
    return Fail(Blame(late, missing.servers), wait);
  }
  if (reopened_) ReopenDue(now_ns);
  void* raw = nullptr;
  bool ok = false;
  const int64_t slice_ns = std::min(kSliceMs * kNsPerMs, wait.deadline_ns - now_ns);
  if (queue_->AsyncNext(&raw, &ok, AfterNs(slice_ns)) != grpc::CompletionQueue::GOT_EVENT) {
    return absl::OkStatus();
  }
  const absl::Status status = Handle(*static_cast<ServerStream::Tag*>(raw), ok);
  return status.ok() ? status : Fail(status, wait);
}

absl::Status StreamSet::OfferKept(const Wait& wait) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const absl::Status status =
        slots_[i].stream->Offer([&](const Frame& frame) { return on_frame_(i, frame); });
    if (!status.ok()) return Fail(status, wait);
  }
  return absl::OkStatus();
}

absl::Status StreamSet::Handle(const ServerStream::Tag& tag, bool ok) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& s) { return s.stream.get() == tag.stream; });
  if (slot == slots_.end()) return absl::OkStatus();  // of a stream that was opened again since
  const auto index = static_cast<size_t>(slot - slots_.begin());
  absl::Status status =
      tag.stream->OnEvent(tag.op, ok, [&](const Frame& frame) { return on_frame_(index, frame); });
  if (tag.op != ServerStream::Op::kFinish) return status;
  if (MayReopen(status, &*slot)) return absl::OkStatus();
  if (slot->tries == 1) return status;
  return Blame(absl::Status(status.code(),
                            absl::StrCat(status.message(), ", tried ", slot->tries, " times")),
               BlamedBy(status));
}

bool StreamSet::MayReopen(const absl::Status& ended, Slot* slot) {
  if (!reopened_ || !absl::IsUnavailable(ended) || slot->tries >= kConnectTriesMax) return false;
  const int64_t pause_ms = kFirstPauseMs << (slot->tries - 1);
  slot->reopen_ns = clock_.NowNs() + pause_ms * kNsPerMs;
  return true;
}

void StreamSet::ReopenDue(int64_t now_ns) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].reopen_ns.has_value() || now_ns < *slots_[i].reopen_ns) continue;
    Open(&slots_[i]);
    reopened_(i);
  }
}

absl::Status StreamSet::Fail(const absl::Status& status, const Wait& wait) {
  failed_ = Annotate(status, absl::StrCat("worker ", rank_, ", ", wait.operation));
  return failed_;
}

Traffic StreamSet::traffic() const {
  Traffic sum;
  for (const Slot& slot : slots_) sum += slot.stream->traffic();
  for (const auto& stream : retired_) sum += stream->traffic();
  return sum;
}

}  // namespace lockstep
