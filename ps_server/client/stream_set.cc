#include "ps_server/client/stream_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// A wait looks at `abort` this often.
constexpr int64_t kSliceMs = 10;
// gRPC lets go of a cancelled stream in milliseconds; this many slices without any news are a fault
// of it. Slices are counted, not time, so that a process that was frozen or starved isn't blamed.
constexpr int kDrainSlicesMax = 1'000;

gpr_timespec AfterNs(int64_t ns) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(ns, GPR_TIMESPAN));
}

}  // namespace

StreamSet::~StreamSet() {
  for (const auto& stream : streams_) stream->Cancel();
  queue_->Shutdown();
  if (!Drain()) {
    // gRPC may still write to these: they are left to it for good.
    for (auto& stream : streams_) static_cast<void>(stream.release());
    static_cast<void>(queue_.release());
  }
  streams_.clear();
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

ServerStream& StreamSet::Add(const ServerStream::Options& options) {
  streams_.push_back(std::make_unique<ServerStream>(options, queue_.get(), lent_));
  return *streams_.back();
}

StreamSet::Wait StreamSet::StartWait(const std::string& operation, const char* limit,
                                     int64_t timeout_ms, int64_t grace_ms) const {
  const int64_t now_ns = clock_.NowNs();
  return {operation, limit, timeout_ms, now_ns, now_ns + (timeout_ms + grace_ms) * kNsPerMs};
}

absl::Status StreamSet::Turn(const Wait& wait, const Awaited& awaited) {
  RETURN_IF_ERROR(failed_);
  const absl::Status aborted = abort_.status();
  if (!aborted.ok()) return Fail(aborted, wait);
  const int64_t now_ns = clock_.NowNs();
  if (now_ns >= wait.deadline_ns) {
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("waited ", (now_ns - wait.start_ns) / kNsPerMs, " ms for ", awaited.what,
                     " (limits.", wait.limit, " ", wait.timeout_ms, ")"));
    return Fail(Blame(late, awaited.servers), wait);
  }
  void* raw = nullptr;
  bool ok = false;
  const int64_t slice_ns = std::min(kSliceMs * kNsPerMs, wait.deadline_ns - now_ns);
  if (queue_->AsyncNext(&raw, &ok, AfterNs(slice_ns)) != grpc::CompletionQueue::GOT_EVENT) {
    return absl::OkStatus();
  }
  const auto* tag = static_cast<ServerStream::Tag*>(raw);
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const auto& s) { return s.get() == tag->stream; });
  const auto shard = static_cast<size_t>(found - streams_.begin());
  const absl::Status status = tag->stream->OnEvent(
      tag->op, ok, [&](const Frame& frame) { return on_frame_(shard, frame); });
  return status.ok() ? status : Fail(status, wait);
}

absl::Status StreamSet::AwaitAll(const Wait& wait, const std::function<bool(size_t shard)>& done,
                                 const std::function<std::string(size_t shard)>& what) {
  RETURN_IF_ERROR(failed_);
  for (size_t k = 0; k < streams_.size(); ++k) {
    while (!done(k)) RETURN_IF_ERROR(Turn(wait, {what(k), {streams_[k]->member()}}));
  }
  return absl::OkStatus();
}

absl::Status StreamSet::Fail(const absl::Status& status, const Wait& wait) {
  failed_ = Annotate(status, absl::StrCat("worker ", rank_, ", ", wait.operation));
  return failed_;
}

Traffic StreamSet::traffic() const {
  Traffic sum;
  for (const auto& stream : streams_) sum += stream->traffic();
  return sum;
}

}  // namespace lockstep
